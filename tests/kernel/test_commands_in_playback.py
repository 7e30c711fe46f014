"""Commands in a notebook that plays: what is recorded is shown, and what is not changes nothing."""

from __future__ import annotations

import pytest
from notebook_client import LiveKernel, run, shown

from kin_nb.replay.format.notebook_reader import load_notebook
from tests.model_server import ModelServer

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]


@pytest.fixture
def kin(kin: LiveKernel, model_server: ModelServer, tmp_path) -> LiveKernel:
    """Two recorded turns, of which the first is played."""
    for answer in ("One.", "Two."):
        model_server.enqueue(answer)
    for prompt in ("Say one.", "Say two."):
        run(kin, f"%%kin\n{prompt}")
    run(kin, "%kin save told")
    run(kin, "%unload_ext kin_nb\n%load_ext kin_nb")
    run(kin, load_notebook(tmp_path / "told.ipynb")["cells"][0]["source"])
    run(kin, "%%kin\nSay one.")
    return kin


def error(nb: LiveKernel, code: str, *, person: bool = True) -> str:
    reply = nb.done(nb.run(code, cell="c9" if person else None, allow_stdin=False))["content"]
    assert reply["status"] == "error"
    return reply["evalue"]


NOTHING_TO_DO = [
    ("%kin save", "Nothing new to save: this notebook plays a recording"),
    ("%%kin\n/save other --plain", "Nothing new to save: this notebook plays a recording"),
    (
        "%kin cost",
        "there is no conversation to count the cost of\n  To continue it with a model: `%kin live`.",
    ),
    ("%kin context", "there is no conversation to measure"),
    ("%kin diff", "there is no conversation to compare the files of"),
]


def test_a_command_that_can_do_nothing_is_a_notice_and_what_is_below_plays(kin, model_server):
    for command, says in NOTHING_TO_DO:
        assert says in shown(kin, run(kin, command))
        assert "Two." in shown(kin, run(kin, "%%kin\nSay two.")), command
        assert error(kin, command, person=False), f"where nobody reads {command}, it is an error"
    assert len(model_server.requests) == 2


@pytest.mark.parametrize("command", ["undo 1", "redo", "clear", "compact"])
def test_one_that_would_move_the_conversation_is_an_error_and_what_is_below_plays(kin, model_server, command):
    said = (
        f"Nothing was done: for this cell no `%kin {command.removesuffix(' 1')}` is recorded, and this notebook plays a"
    )
    for person in (True, False):
        assert error(kin, f"%kin {command}", person=person).startswith(said)
    assert "Two." in shown(kin, run(kin, "%%kin\nSay two."))
    assert len(model_server.requests) == 2


def test_what_would_take_another_conversation_is_an_error_and_so_are_mistakes(kin):
    for command in ("%kin resume", "%kin load told.ipynb", "%kin undo x", "%kin nonsense"):
        error(kin, command)


@pytest.mark.parametrize("command", ["undo", "clear"])
def test_live_it_moves_the_conversation(kin, model_server, command):
    run(kin, "%%kin\nSay two.")
    model_server.enqueue("Three.")
    for code in ("%kin live", f"%kin {command}", "%%kin\nSay three."):
        run(kin, code)
    said = [each["content"] for each in model_server.requests[2]["messages"] if each["role"] == "user"]
    assert said == (["Say one.", "Say three."] if command == "undo" else ["Say three."])
