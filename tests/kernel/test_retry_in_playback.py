"""A prompt that was edited in a notebook that plays: what differs is shown, and `%%kin --retry` asks it again from there."""

from __future__ import annotations

import pytest
from notebook_client import LiveKernel, kept_outputs, run, shown

from kin_nb.core.records import Ref
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from tests.model_server import ModelServer, tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
PROMPTS = ("Say one.", "Change x\nto two.", "Say three.")


@pytest.fixture
def kin(kin: LiveKernel, model_server: ModelServer, tmp_path) -> LiveKernel:
    """Three turns, of which the second changed a.py, in cells c1 to c3; saved, and played from there to the end."""
    for answer in (
        {"text": "One."},
        {"text": "I change it.", "calls": [EDIT]},
        {"text": "Changed."},
        {"text": "Three."},
    ):
        model_server.enqueue(answer["text"], calls=answer.get("calls", []))
    run(kin, "%kin mode auto-approve")
    for number, prompt in enumerate(PROMPTS, 1):
        ok(kin, f"%%kin\n{prompt}", cell=f"c{number}")
    run(kin, "%kin save told")
    run(kin, "%unload_ext kin_nb\n%load_ext kin_nb")
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    run(kin, load_notebook(tmp_path / "told.ipynb")["cells"][0]["source"])
    for number, prompt in enumerate(PROMPTS, 1):
        ok(kin, f"%%kin\n{prompt}", cell=f"c{number}")
    assert len(model_server.requests) == 4
    return kin


def ok(nb: LiveKernel, code: str, *, cell: str | None, allow_stdin: bool = True) -> str:
    """What the cell shows."""
    sent = nb.run(code, cell=cell, allow_stdin=allow_stdin)
    reply = nb.done(sent)["content"]
    assert reply["status"] == "ok", reply
    return shown(nb, sent)


def error(nb: LiveKernel, code: str, *, cell: str | None, allow_stdin: bool = True) -> str:
    reply = nb.done(nb.run(code, cell=cell, allow_stdin=allow_stdin))["content"]
    assert reply["status"] == "error"
    return reply["evalue"]


def test_an_edited_prompt_is_shown_beside_the_recorded_one(kin, model_server):
    said = error(kin, "%%kin\nChange x\nto three.", cell="c2").splitlines()
    assert said == [
        "The saved answer of this cell (turn 2) is for another prompt:",
        "    Change x",
        "  - to two.",
        "  + to three.",
        "Restore the text to show that answer, or use `%%kin --retry` to ask again from where turn 2 was asked.",
    ]
    assert len(model_server.requests) == 4
    assert "Changed." in ok(kin, "%%kin\nChange x\nto two.", cell="c2"), "restored, it plays"


def test_retry_asks_the_edited_prompt_live_from_where_its_turn_stood(kin, model_server, tmp_path):
    model_server.enqueue("I leave it.")
    model_server.enqueue("On.")
    text = ok(kin, "%%kin --retry\nLeave x.", cell="c2")
    assert "Undid turns 2, 3" in text
    assert "Playback left: this notebook asks the model from here on" in text
    assert "I leave it." in text
    sent = model_server.requests[4]["messages"]
    assert [each["content"] for each in sent[1:]] == ["Say one.", "One.", "Leave x."]
    assert (tmp_path / "a.py").read_text() == "x = 1\n", "what turn 2 had changed is put back"
    ok(kin, "%%kin\nGo on.", cell="c4")
    run(kin, "%kin save forked")
    forked = read_recording(load_notebook(tmp_path / "forked.ipynb"))
    assert [turn.prompt for turn in forked.turns] == [*PROMPTS, "Leave x.", "Go on."], "both branches are there"
    assert [undo.turns for undo in forked.moves] == [(2, 3)]
    assert forked.turns[3].parent == forked.moves[0].head == Ref(id=forked.turns[0].id)


def test_retry_of_an_unchanged_prompt_asks_it_again(kin, model_server):
    model_server.enqueue("Another three.")
    assert "Another three." in ok(kin, "%%kin --retry\nSay three.", cell="c3")
    assert [each["content"] for each in model_server.requests[4]["messages"]][-1] == "Say three."
    assert "Changed." in [each["content"] for each in model_server.requests[4]["messages"]]


def test_with_no_one_there_retry_is_an_error_and_nothing_moves(kin, model_server, tmp_path):
    said = error(kin, "%%kin --retry\nLeave x.", cell=None, allow_stdin=False)
    assert said.startswith("No saved answer: ")
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    assert "One." in ok(kin, f"%%kin\n{PROMPTS[0]}", cell=None, allow_stdin=False), "it plays on"
    assert len(model_server.requests) == 4


def test_a_new_cell_after_the_last_turn_continues_and_says_so(kin, model_server):
    model_server.enqueue("Four.")
    run(kin, "%env KIN_RECORD=new")
    text = ok(kin, "%%kin\nSay four.", cell="c9")
    assert "Playback left" in text
    assert "Four." in text
    assert len(model_server.requests[-1]["messages"]) == 10


def test_commands_of_a_conversation_say_what_there_is_in_playback(kin):
    assert "Three." in ok(kin, "%kin last", cell="c9")
    assert "To continue it with a model: `%kin live`" in ok(kin, "%kin cost", cell="c9")
    assert "kin-nb save NOTEBOOK.ipynb OUT.ipynb --portable" in ok(kin, "%kin save", cell="c9")


def test_run_again_without_a_restart_the_head_shows_what_was_saved(kin, tmp_path):
    head = load_notebook(tmp_path / "told.ipynb")["cells"][0]
    again = kept_outputs(kin, run(kin, f"# NBVAL_CHECK_OUTPUT\n{head['source']}"))
    assert [each["data"]["text/plain"].splitlines() for each in again] == [
        "".join(each["data"]["text/plain"]).splitlines() for each in head["outputs"]
    ]


def test_loading_in_the_cell_that_unloads_begins_again(kin):
    assert "this notebook plays a recording" in ok(kin, "%kin save", cell="c9")
    run(kin, "%unload_ext kin_nb\n%load_ext kin_nb")
    assert "Nothing to save yet" in error(kin, "%kin save", cell="c9")


def test_without_a_model_it_plays_on(kin, model_server, tmp_path):
    config = tmp_path / "kin-home" / "config.toml"
    config.write_text(config.read_text().replace("active_model", "active_model = 'none'\nformer_model"))
    run(kin, "%env KIN_RECORD=new")
    for cell, code in (("c2", "%%kin --retry\nLeave x."), ("c9", "%%kin\nSay four.")):
        assert "none" in error(kin, code, cell=cell)
    assert "One." in ok(kin, f"%%kin\n{PROMPTS[0]}", cell="c1")
    assert len(model_server.requests) == 4
