"""After a `%kin replay` that failed: every command says what is the case and what to do, and the advice works."""

from __future__ import annotations

import pytest
from page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

MISSING = "%kin replay abc@123456789012"


@pytest.fixture
def page(kin, tmp_path):
    page = Page(kin, tmp_path / "failed.ipynb")
    page.type("%load_ext kin_nb")
    page.type(MISSING)
    page.save()
    assert [page.run(cell) for cell in page.cells] == ["ok", "error"]
    return page


def type_and_run(page: Page, source: str) -> str:
    page.type(source)
    return page.run(page.cells[-1])


COMMANDS = [
    ("%kin undo", "`undo` changed nothing"),
    ("%kin redo", "`redo` changed nothing"),
    ("%kin clear", "`clear` changed nothing"),
    ("%kin compact", "`compact` changed nothing"),
    ("%kin cost", "There is no conversation to count the cost of"),
    ("%kin diff", "There is no conversation to"),
    ("%%kin\nHello?", "This cell has no saved answer"),
]


@pytest.mark.parametrize(("command", "fact"), COMMANDS)
@pytest.mark.parametrize("session", ["", "helper"])
def test_a_command_says_that_the_replay_failed_and_what_to_do(page, model_server, session, command, fact):
    named = command.replace("kin", f"kin --session {session}", 1) if session else command
    assert type_and_run(page, named) == "error"
    live = f"%kin --session {session} live" if session else "%kin live"
    assert page.said.startswith(fact)
    assert page.said.splitlines()[0].endswith(": `%kin replay` failed above.")
    assert page.said.splitlines()[1] == f"Correct that line and run it again. Or run `{live}` to ask the model."
    assert model_server.requests == []


@pytest.mark.parametrize("session", ["", "helper"])
def test_the_advice_to_go_live_works_and_live_says_so(page, model_server, session):
    option = f" --session {session}" if session else ""
    assert type_and_run(page, f"%%kin{option}\nHello?") == "error"
    advised = page.said.splitlines()[1].split("`")[1]
    assert type_and_run(page, advised) == "ok"
    where = f"session {session}" if session else "this notebook"
    assert f"Playback left: {where} asks the model from here on" in page.said
    model_server.enqueue("Good day.")
    assert type_and_run(page, f"%%kin{option}\nHello?") == "ok"
    assert "Good day." in page.said
    for command in ("cost", "undo"):
        assert type_and_run(page, f"%kin{option} {command}") == "ok"
        assert page.said.strip()


def test_the_advice_to_correct_the_line_works(page, model_server, tmp_path):
    """With a recording that another notebook holds."""
    other = Page(page.kin, tmp_path / "other.ipynb")
    assert type_and_run(page, "%kin live") == "ok"
    model_server.enqueue("Good day.")
    assert type_and_run(page, "%%kin\nHello?") == "ok"
    assert type_and_run(page, f"%kin save {other.path}") == "ok"
    line = next(line for line in Page(page.kin, other.path).cells[0]["source"].splitlines() if "replay" in line)
    assert type_and_run(page, MISSING) == "error"
    assert type_and_run(page, "%kin cost") == "error"
    assert type_and_run(page, f"{line} --from {other.path}") == "ok"
    assert "This notebook is in playback" in page.said
