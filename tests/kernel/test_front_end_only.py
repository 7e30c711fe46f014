"""A notebook that only its front end ever saved: its answers play on Run All, and a new prompt asks before a model is asked."""

from __future__ import annotations

import json

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, kept_outputs, run, shown
from page import Page, prompts_sent

from kin_nb.replay.format.output_records import BACKUP_KEY
from tests.model_server import ModelServer

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

CARD = "No saved answer. Ask the model?"


@pytest.fixture
def lived(kin: LiveKernel, opens, model_server: ModelServer, tmp_path) -> Page:
    """Two answers, saved by the front end; the kernel has forgotten them."""
    opens(tmp_path / "mine.ipynb")
    page = Page(kin, tmp_path / "mine.ipynb")
    page.save()
    page.type("%load_ext kin_nb")
    for text in ("One.", "Two."):
        model_server.enqueue(text)
        page.type(f"%%kin\nSay {text.lower()}")
        page.run(page.cells[-1])
    page.save()
    run(kin, "%unload_ext kin_nb\n%load_ext kin_nb")
    kin.quietly("import os; os.environ.pop('KIN_APPROVAL')")
    return page


def test_run_all_shows_the_answers_and_says_so_once(lived, model_server):
    said = []
    for cell in lived.cells[1:]:
        assert lived.run(cell) == "ok"
        said.append(lived.said)
    assert said[0].startswith(
        "Saved answers are shown\n  Record mode new: without a saved answer, you are asked before"
    )
    assert ["One." in said[0], "Two." in said[1]] == [True, True]
    assert "Saved answers" not in said[1]
    assert len(model_server.requests) == 2
    assert "playback of recorded answers, record mode new" in shown(lived.kin, run(lived.kin, "%kin status"))


def test_what_is_shown_is_in_the_file_that_the_front_end_saves_again(lived, model_server):
    for _ in range(2):
        assert lived.run_all() == ["ok"] * 3
        lived.save()
    assert BACKUP_KEY not in lived.cells[1]["outputs"][0]["metadata"]
    for cell in lived.cells:
        cell["outputs"] = []
    run(lived.kin, "%unload_ext kin_nb")
    for cell in lived.cells[:2]:
        lived.run(cell)
    assert BACKUP_KEY in lived.cells[1]["outputs"][0]["metadata"]
    lived.save()
    assert lived.run_all() == ["ok"] * 3, "the first cell keeps what the others lost"
    assert "Two." in lived.said
    assert len(model_server.requests) == 2


@pytest.mark.row("a new prompt, and a user is at the notebook")
@pytest.mark.parametrize("answer", ["Ask the model", "Skip this cell"])
def test_a_new_prompt_asks_before_the_model_is_asked(lived, model_server, answer):
    model_server.enqueue("Three.")
    ran = lived.kin.run("%%kin\nSay three.", cell="new")
    lived.kin.card(ran, CARD)
    assert len(model_server.requests) == 2
    lived.kin.click(answer)
    reply = lived.kin.done(ran)["content"]
    if answer == "Skip this cell":
        assert reply["evalue"] == "This cell was skipped: it has no saved answer.\nRun it again to ask the model."
        assert len(model_server.requests) == 2
        return
    assert reply["status"] == "ok"
    assert "Three." in shown(lived.kin, ran)
    assert prompts_sent(model_server) == ["Say one.", "Say two.", "Say three."]
    model_server.enqueue("Four.")
    lived.kin.done(lived.kin.run("%%kin\nSay four.", cell="later"))
    assert prompts_sent(model_server)[-1] == "Say four.", "live from there on, nothing is asked before"


def test_once_live_an_answered_cell_still_shows_its_answer(lived, model_server):
    run(lived.kin, "%kin live")
    model_server.enqueue("Two, again.")
    lived.cells[2]["source"] = "%%kin --retry\nSay two."
    assert lived.run(lived.cells[2]) == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Say two."]
    assert "Undid turn 2" in lived.said


def test_what_was_edited_by_hand_is_named_and_nothing_is_asked(lived, model_server):
    nb = json.loads(lived.path.read_text())
    nb["cells"][2]["outputs"][-1]["metadata"]["kin_recording"]["record"]["steps"][0]["content"] = "Other."
    lived.path.write_text(json.dumps(nb))
    for cell in lived.cells[1:]:
        assert lived.run(cell) == "error"
        assert lived.said.startswith("This cell has no saved answer: cell 3, turn 2, step 1: ")
        assert "Or run `%kin live` to ask the model." in lived.said
    assert len(model_server.requests) == 2


def test_a_pasted_saved_cell_plays_in_a_notebook_that_recorded_nothing(lived, model_server, opens, tmp_path):
    run(lived.kin, "%kin save saved.ipynb")
    cell = json.loads((tmp_path / "saved.ipynb").read_text())["cells"][-1]
    other = tmp_path / "other.ipynb"
    other.write_text(json.dumps(new_notebook(cells=[new_code_cell("x = 1"), cell])))
    opens(other)
    run(lived.kin, "%unload_ext kin_nb\n%load_ext kin_nb")
    ran = lived.kin.run("".join(cell["source"]), cell=cell["id"])
    assert lived.kin.done(ran)["content"]["status"] == "ok"
    assert "Two." in str(kept_outputs(lived.kin, ran))
    assert len(model_server.requests) == 2


def test_a_first_cell_that_fails_keeps_the_answers_below_it(lived, model_server):
    """Run All stops there, the front end has cleared the outputs below by then, and saves that."""
    lived.cells.insert(1, new_code_cell("%kin redo", id="redo"))
    lived.save()
    assert lived.run_all()[:2] == ["ok", "error"]
    assert BACKUP_KEY in lived.cells[1]["outputs"][-1]["metadata"]
    for cell in lived.cells[2:]:
        cell["outputs"] = []
    lived.save()
    run(lived.kin, "%unload_ext kin_nb\n%load_ext kin_nb")
    assert [lived.run(cell) for cell in lived.cells[2:]] == ["ok", "ok"]
    assert "Two." in lived.said
    assert len(model_server.requests) == 2
