"""What a cell says when nothing is set up, or not rightly: a line or two, what to do, and the kernel continues."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.headless import LOAD, Headless, error_of, error_text, shown
from tests.notebook.people import environment, write_config

pytestmark = pytest.mark.kernel

PROMPT = "%%kin\nAre you there?"
NOBODY = "http://127.0.0.1:9/v1"
"""Port 9 (discard): nothing listens there."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[tuple[Headless, Path]]:
    """(a kernel with kin_nb loaded, the person's home)."""
    root = tmp_path_factory.mktemp("wrong")
    with Headless.start(root, environment(root / "home")) as kernel:
        kernel.ok(LOAD)
        yield kernel, root / "home"


@pytest.fixture
def kernel(place) -> Iterator[Headless]:
    """It is lent without settings, and must have come through the test."""
    kernel, home = place
    (home / ".kin-code" / "config.toml").unlink(missing_ok=True)
    kernel.ok("%kin mode default")
    yield kernel
    assert shown(kernel.ok("print(6 * 7)")) == "42\n"


@pytest.fixture
def home(place) -> Path:
    return place[1]


def said(cell: Any) -> str:
    """The cell's one error, which must be short and no stack trace."""
    error = error_of(cell)
    assert error is not None
    assert error["ename"] in {"KinError", "TurnFailedError"}
    text = error_text(cell)
    assert len(text.splitlines()) <= 4
    assert not re.search(r'Traceback|File "|^\s*-+>|\x1b|Error\b.*Error:', text)
    return text


def test_with_no_settings_and_no_key_the_ways_on_are_named(kernel):
    text = said(kernel.run(PROMPT))
    for way in ("MISTRAL_API_KEY", "~/.kin-code/config.toml", "llama.cpp", "Ollama", "kin-nb demo"):
        assert way in text


def test_a_key_set_in_the_kernel_counts_at_once(kernel, home, model_server):
    write_config(home, model_server.url, key_variable="LATE_API_KEY")
    assert "LATE_API_KEY is not set" in said(kernel.run(PROMPT))
    kernel.ok("import os; os.environ['LATE_API_KEY'] = 'a-key-of-some-length'")
    model_server.enqueue("I am.")
    assert "I am." in shown(kernel.ok(PROMPT))
    assert model_server.headers[-1]["authorization"] == "Bearer a-key-of-some-length"


def test_a_server_that_is_down_is_named_and_mending_the_file_is_enough(kernel, home, model_server):
    write_config(home, NOBODY)
    text = said(kernel.run(PROMPT))
    assert NOBODY in text
    write_config(home, model_server.url)
    model_server.enqueue("I am.")
    assert "I am." in shown(kernel.ok(PROMPT))


def test_a_wrong_key_is_named_by_its_variable_and_never_shown(kernel, home, model_server):
    kernel.ok("import os; os.environ['WRONG_API_KEY'] = 'not-the-right-key'")
    write_config(home, model_server.url, key_variable="WRONG_API_KEY")
    model_server.enqueue(status=401, body={"error": {"message": "Incorrect API key: not-the-right-key"}})
    cell = kernel.run(PROMPT)
    assert "WRONG_API_KEY" in said(cell)
    assert "not-the-right-key" not in str(cell["outputs"])


def test_a_model_that_the_server_does_not_have(kernel, home, model_server):
    write_config(home, model_server.url)
    model_server.enqueue(status=404, body={"error": {"message": "The model `scripted` does not exist"}})
    text = said(kernel.run(PROMPT))
    assert "scripted" in text
    assert "does not exist" in text


@pytest.mark.parametrize("cell", ["%%kin --model devstrall\nHello?", "%kin model devstrall"])
def test_a_model_that_no_setting_names(kernel, cell):
    text = said(kernel.run(cell))
    assert "devstrall" in text
    assert "Models: devstral-2, devstral-small, local, ollama" in text
    assert "devstral-2" in shown(kernel.ok("%kin model")), "the model is as before"


@pytest.mark.parametrize("cell", [PROMPT, "%kin model"])
def test_a_malformed_file_is_named_with_its_line(kernel, home, cell):
    path = write_config(home, NOBODY)
    path.write_text(path.read_text() + "\n[[models\n")
    line = len(path.read_text().splitlines())
    assert said(kernel.run(cell)).startswith(f"{path}:{line}: not valid TOML")


def test_a_style_of_api_that_no_one_speaks(kernel, home):
    path = write_config(home, NOBODY)
    path.write_text(path.read_text().replace("api_base", 'api_style = "smoke"\napi_base'))
    assert said(kernel.run(PROMPT)) == 'Provider "here": unknown api_style "smoke". Known: anthropic, mistral, openai.'


def test_a_way_of_asking_that_there_is_not(kernel, home):
    write_config(home, NOBODY)
    kernel.ok("import os; os.environ['KIN_APPROVAL'] = 'telepathy'")
    try:
        assert said(kernel.run(PROMPT)).startswith('KIN_APPROVAL must be widget, stdin, headless; got "telepathy".')
    finally:
        kernel.ok("del os.environ['KIN_APPROVAL']")


@pytest.mark.parametrize(
    "cell", ["%%kin", "%%kin\n", "%%kin --no-tools\n", "%%kin\n  \n\n", "%%kin\n# NBVAL_IGNORE_OUTPUT\n"]
)
def test_an_empty_prompt(kernel, cell):
    assert said(kernel.run(cell)) == "The prompt is empty. Write it below the %%kin line."


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%%kin --fast\nHello?", "%%kin: unknown option --fast. %%kin --help lists all."),
        ("%%kin fix it\nHello?", "%%kin: `fix` is not an option. Write the prompt below the %%kin line."),
        ("%%kin --mode\nHello?", "%%kin: --mode needs a value."),
        ('%%kin --mode "plan\nHello?', "%%kin: a quotation mark is not closed."),
        (
            "%%kin --mode yolo\nHello?",
            'Unknown mode "yolo". That is a policy; its mode is auto-approve.\nModes: default, plan, accept-edits, auto-approve.',
        ),
        (
            "%kin mode yolo",
            'Unknown mode "yolo". That is a policy; its mode is auto-approve.\nModes: default, plan, accept-edits, auto-approve.',
        ),
        ("%kin sav", "Unknown command %kin sav. Did you mean %kin save?\n%kin help lists all commands."),
        ("%kin xyzzy", "Unknown command %kin xyzzy.\n%kin help lists all commands."),
        ("%kin replay", "Usage: %kin replay SESSION@DIGEST [--scratch] [--from PATH]"),
        ("%kin last", "Nothing to show yet: no prompt has run in this session."),
    ],
)
def test_what_was_mistyped_is_answered_with_what_there_is(fresh, cell, text):
    assert said(fresh.run(cell)).startswith(text)


def test_a_notebook_that_asks_already_is_not_made_to_twice(fresh):
    assert shown(fresh.ok("%kin live")).startswith("Live: each prompt asks the model")
    assert (
        said(fresh.run("%kin live"))
        == "Nothing to leave: this notebook does not play a recording. Prompts ask the model."
    )


@pytest.fixture
def fresh(kernel, home) -> Headless:
    """A session that has had no turn, with a model configured: what is wrong is the cell."""
    kernel.ok("%unload_ext kin_nb\n%load_ext kin_nb")
    write_config(home, NOBODY)
    return kernel
