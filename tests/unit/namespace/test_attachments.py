"""@ in a prompt: what is attached, what is text, and what is reported when something is not."""

from __future__ import annotations

import struct
import sys
from datetime import UTC, date, datetime, tzinfo

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.messages import ImageContent
from kin_nb.notebook.namespace import collect_attachments, pictures
from tests.model_server import tool_call  # noqa: F401
from tests.table import each_row

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 10, 20) + bytes(20)


@pytest.fixture
async def agent(config):
    made = Agent(config)
    yield made
    await made.aclose()


@pytest.fixture(autouse=True)
def _no_error_yet(monkeypatch):
    monkeypatch.delattr(sys, "last_value", raising=False)


@pytest.fixture
def attached(shell, agent):
    return lambda prompt: collect_attachments(prompt, shell, agent.workspace, agent)


@pytest.fixture
def sees(agent):
    """The model takes pictures."""
    model = agent.config.models[0].model_copy(update={"supports_images": True})
    agent.override(models=[model])


def test_a_variable_is_its_summary_without_values(shell, attached):
    shell.user_ns["cfg"] = {"host": "db.example"}
    found = attached("Is @cfg right?")
    assert found.labels[0].startswith("cfg (1 item, ")
    assert "cfg: dict (1 item" in found.text
    assert "  host: str 10 characters" in found.text
    assert "db.example" not in found.text
    assert found.sent("Is @cfg right?").startswith("Is @cfg right?\n\n[attached by the user")


@each_row(
    "value",
    ["Bern", "", "x" * 200, 7, -1.5, True, None, date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, tzinfo=UTC)],
    ids=repr,
)
def test_a_short_value_goes_along(shell, attached, value):
    shell.user_ns["city"] = value
    found = attached("weather in @city?")
    assert found.text.endswith(f"--- {found.labels[0]}\ncity = {value!r}")


class Name(str):
    """Its repr may be anything."""

    __slots__ = ()

    def __repr__(self):
        return "Bern"


class Nowhere(tzinfo):
    def __repr__(self):
        raise ValueError


@each_row(
    "value",
    ["x" * 201, "\x1b[31msk-" + "Zq8a" * 8, 10**5_000, Name("Bern"), datetime(2026, 1, 2, tzinfo=Nowhere())],
    ids=type,
)
def test_a_value_that_is_long_or_runs_code_of_its_own_does_not(shell, attached, value):
    shell.user_ns["city"] = value
    text = attached("@city").text
    assert "\ncity: " in text
    assert "city = " not in text


@pytest.mark.parametrize("name", ["db_password", "apiKey", "access_token"])
def test_a_value_under_a_secrets_name_does_not_go_along(shell, attached, name):
    shell.user_ns[name] = "Bern"
    text = attached(f"use @{name}").text
    assert f"{name}: str (4 characters" in text
    assert "Bern" not in text


@pytest.mark.parametrize(
    "value",
    ["it is hunter2'\n\"hunter2", "password='Bern-Zq8'", "postgres://ann:Bern-Zq8@db/x", "key sk-" + "Zq8a" * 8],
)
def test_a_short_value_goes_without_secrets(shell, attached, monkeypatch, value):
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2'\n\"hunter2")
    shell.user_ns["note"] = value
    text = attached("@note").text
    assert "note = " in text
    assert "[secret]" in text
    assert "hunter2" not in text
    assert "Zq8" not in text


def test_a_file_is_its_text_with_its_name(attached, workspace):
    (workspace / "src").mkdir()
    (workspace / "src" / "b.py").write_text("print('{x}')\n")
    found = attached("Explain @src/b.py, please.")
    assert found.labels == ("src/b.py (13 B)",)
    assert found.text.endswith("--- src/b.py (13 B)\nprint('{x}')")


def test_a_folder_is_its_listing(attached, workspace):
    (workspace / "src" / "inner").mkdir(parents=True)
    (workspace / "src" / "b.py").touch()
    found = attached("What is in @src?")
    assert found.labels == ("src (2 entries)",)
    assert found.text.endswith("\nb.py\ninner/")


@each_row(
    "prompt",
    [
        "Mail me@example.com or @nobody",
        "@",
        "a @ b, {@x}, 100% sure? `@y`",
        "@app.route('/')\ndef index(): ...",
        "@cached\ndef f(): ...",
        "@app/views is gone",
        "user@df",
        "@app_2",
        "@../outside.txt and @/etc/passwd",
    ],
)
def test_anything_else_with_an_at_sign_stays_text(shell, attached, workspace, prompt):
    shell.run_cell("app, df = 1, 2\ndef cached(f): return f")
    (workspace.parent / "outside.txt").write_text("secret")
    found = attached(prompt)
    assert (found.labels, found.text, found.images) == ((), "", ())
    assert found.sent(prompt) == ""


@each_row("end", [".", ",", "?", ")", "'s", ":", "\n", '"', ""])
def test_punctuation_after_a_name_is_no_part_of_it(shell, attached, end):
    shell.user_ns["df"] = [1]
    assert len(attached(f"Look at (@df{end}").labels) == 1


def test_the_longer_name_is_meant_and_of_equals_the_variable(shell, attached, workspace):
    shell.user_ns.update(df=[1], data=[2])
    (workspace / "df.csv").write_text("a,b\n")
    (workspace / "data").mkdir()
    assert [label.split()[0] for label in attached("@df.csv and @df and @data").labels] == ["df.csv", "df", "data"]
    assert "data (1 item" in attached("@data").labels[0]


def test_what_is_mentioned_twice_is_attached_once(shell, attached):
    shell.user_ns["df"] = [1]
    assert len(attached("@df @df").labels) == 1


def test_a_file_that_may_hold_secrets_is_refused_and_never_read(attached, workspace):
    (workspace / ".env").write_text("API_KEY=hunter2hunter2")
    (workspace / "plain.txt").symlink_to(workspace / ".env")
    found = attached("See @.env and @plain.txt")
    assert found.labels == (".env (not attached: may hold secrets)", "plain.txt (not attached: may hold secrets)")
    assert "hunter2" not in found.text


def test_a_long_file_is_cut_at_a_line_and_says_so(attached, workspace):
    (workspace / "long.txt").write_text("ä 3456789\n" * 6_000)
    text = attached("@long.txt").text
    assert text.endswith("bytes of 66,000]")
    assert len(text) < 41_000
    assert "Ã" not in text


@pytest.mark.parametrize(("name", "why"), [("a.bin", "binary"), ("pipe", "named pipe")])
def test_what_is_no_text_is_reported(attached, workspace, name, why):
    import os

    (workspace / "a.bin").write_bytes(b"\0\1\2")
    os.mkfifo(workspace / "pipe")
    assert why in attached(f"@{name}").labels[0]


def test_a_notebook_is_its_cells(attached, workspace):
    (workspace / "n.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["x = 1"], "outputs": []}]}')
    assert "[cell 1: code]\nx = 1" in attached("@n.ipynb").text


def test_secrets_of_the_session_are_not_sent(attached, workspace, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2hunter2")
    (workspace / "t.txt").write_text("it is hunter2hunter2")
    assert "hunter2" not in attached("@t.txt").text


def test_a_picture_goes_along_when_the_model_takes_pictures(attached, sees, workspace):
    (workspace / "plot.png").write_bytes(PNG)
    found = attached("@plot.png")
    assert found.labels == ("plot.png (PNG picture, 44 B)",)
    assert [image.media_type for image in found.images] == ["image/png"]


def test_a_model_that_takes_none_gets_none_and_it_is_reported(attached, workspace):
    (workspace / "plot.png").write_bytes(PNG)
    found = attached("@plot.png")
    assert found.labels == ("plot.png (PNG picture, 44 B), not sent: m takes no pictures",)
    assert found.images == ()


def test_a_figure_and_an_image_are_pictures(shell, attached, sees):
    figure = pytest.importorskip("matplotlib.figure")
    from PIL import Image

    shell.user_ns.update(fig=figure.Figure(figsize=(40, 1)), photo=Image.new("RGB", (3000, 10)))
    found = attached("@fig and @photo")
    assert found.labels == ("fig (figure)", "photo (picture)")
    import base64

    sizes = [pictures.dimensions(base64.b64decode(image.data)) for image in found.images]
    assert [max(size) for size in sizes] == [1568, 1568]


def test_a_variable_that_cannot_be_looked_at_stops_nothing(shell, attached):
    shell.run_cell(
        "class Bad:\n    @property\n    def shape(self): raise ValueError\n    __class__ = property(lambda s: 1 / 0)\n"
        "bad, good = Bad(), [1]"
    )
    found = attached("@bad and @good")
    assert found.labels[1].startswith("good (1 item")
    assert "its own code raised" in found.text


def test_the_last_error_comes_with_its_cell(shell, attached):
    shell.run_cell("def half(x):\n    return 1 / x\nhalf(0)")
    found = attached("Fix @error, please")
    assert found.labels == ("error (ZeroDivisionError: division by zero)",)
    assert "The cell:\ndef half(x):\n    return 1 / x\nhalf(0)" in found.text
    assert "ZeroDivisionError: division by zero" in found.text
    assert "interactiveshell" not in found.text


def test_a_syntax_error_comes_with_its_cell_too(shell, attached):
    shell.run_cell("x = = 1")
    found = attached("@error")
    assert "x = = 1" in found.text
    assert "SyntaxError" in found.labels[0]


@pytest.mark.parametrize("before", ["\\x1b[31m", "x" * 49 + " "], ids=["after a colour", "cut"])
def test_the_label_of_an_error_has_no_secret_in_it(shell, attached, before):
    shell.run_cell(f"raise ValueError('{before}' + 'sk-' + 'Zq8a' * 8)")
    found = attached("@error")
    assert found.labels == (f"error (ValueError: {'' if '31m' in before else before}[secret])",)
    assert "Zq8aZq8a" not in found.text


def test_without_an_error_the_word_is_a_variables_name_or_text(shell, attached):
    assert attached("what @error?").labels == ()
    shell.user_ns["error"] = 0.5
    assert attached("what @error?").labels[0].startswith("error (float")


@each_row(
    ("content", "size"),
    [
        (PNG, (10, 20)),
        (b"GIF89a" + struct.pack("<HH", 7, 8), (7, 8)),
        (b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + struct.pack(">HH", 30, 40), (40, 30)),
        (b"RIFF____WEBPVP8X" + bytes(8) + b"\x09\0\0\x13\0\0", (10, 20)),
        (b"RIFF____WEBPVP8L" + bytes(5) + struct.pack("<I", 9 | 19 << 14), (10, 20)),
        (b"RIFF____WEBPVP8 " + bytes(10) + struct.pack("<HH", 10, 20), (10, 20)),
        (b"\xff\xd8\xff\xe0", None),
        (b"no picture", None),
        (b"", None),
    ],
)
def test_a_pictures_size_is_in_its_header(content, size):
    assert pictures.dimensions(content) == size


def test_without_pillow_a_large_picture_is_not_sent_and_it_is_reported(monkeypatch):
    import base64

    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    large = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 2000, 20)
    picture, why = pictures.shrink_to_fit(ImageContent(media_type="image/png", data=base64.b64encode(large).decode()))
    assert picture is None
    assert why == "2000 x 20 pixels are too many (1568 a side), and Pillow is not installed"


async def test_a_turn_sends_the_attachment_and_records_prompt_and_labels(shell, agent, attached, model_server):
    shell.user_ns["cfg"] = {"host": 1}
    model_server.enqueue("Fine.")
    found = attached("Is @cfg right?")
    async for _ in agent.act(
        "Is @cfg right?", images=found.images, attached=found.labels, sent=found.sent("Is @cfg right?")
    ):
        pass
    sent = model_server.requests[0]["messages"][-1]["content"]
    assert sent.startswith("Is @cfg right?\n\n[attached")
    assert "  host: int" in sent
    assert agent.turns[0].prompt == "Is @cfg right?"
    assert agent.turns[0].attached == found.labels
    assert agent.turns[0].sent == sent


async def test_a_skill_and_an_attachment_go_together(shell, agent, attached, model_server, workspace):
    from kin_nb.core.paths import kin_home

    folder = kin_home() / "skills" / "review"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: review\ndescription: Reviews.\n---\nLook twice.\n")
    shell.user_ns["cfg"] = {"host": 1}
    agent = Agent(agent.base_config)
    model_server.enqueue("Fine.")
    prompt = "/skill:review @cfg"
    found = attached(prompt)
    async for _ in agent.act(prompt, attached=found.labels, sent=found.sent(prompt)):
        pass
    await agent.aclose()
    sent = model_server.requests[0]["messages"][-1]["content"]
    assert "Look twice." in sent
    assert "  host: int" in sent
