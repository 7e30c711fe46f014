"""Run All in a notebook that plays: all cells are sent at once, and none of them asks a model that no one meant to ask."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell
from notebook_client import run
from page import NOTE, Page, forget_log, prompts_sent

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

NOBODY = "No saved answer: no cell of this notebook has a recorded answer to this text."


@pytest.fixture
def mate(page: Page, tmp_path) -> Page:
    """A teammate has the file, and no log."""
    forget_log(tmp_path)
    return page


def test_a_new_prompt_at_the_end_is_asked_when_the_person_says_so(mate, model_server):
    mate.type("%%kin\nSay three.")
    assert mate.run_all() == ["ok", "ok", "ok", "error"]
    assert mate.said.startswith(NOBODY)
    assert len(model_server.requests) == 3
    model_server.enqueue("Three.")
    assert mate.ask(mate.cells[-1]) == "ok"
    assert "Three." in mate.said
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say three."]


def test_a_cell_that_loads_the_extension_again_asks_no_one_either(mate, model_server):
    mate.cells.insert(1, new_code_cell("%reload_ext kin_nb", id="again"))
    assert mate.run_all() == ["ok"] * 4
    assert "Noted." in mate.said
    assert len(model_server.requests) == 3


@pytest.mark.parametrize("code", ["%run {path}", "get_ipython().safe_execfile_ipy({path!r})"])
def test_a_notebook_that_is_run_by_a_cell_asks_no_one(mate, model_server, tmp_path, code):
    mate.type(NOTE.replace("Add a note", "Add another"))
    mate.save()
    run(mate.kin, "%unload_ext kin_nb")
    mate.command(code.format(path=str(mate.path)))
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_one_between_does_not_have_those_below_asked_again(mate, model_server, tmp_path):
    mate.cells[2]["outputs"] = []  # what was answered is lost for good
    mate.save()
    mate.cells.insert(2, new_code_cell("%%kin\nSay three.", id="between"))
    assert mate.run_all() == ["ok", "ok", "error", "aborted"]
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_answers_that_were_saved_away_are_not_asked_for_again(mate, model_server):
    """Ctrl-S while all outputs were gone: what came after the recording is in no file any more."""
    assert mate.run_all(save=True) == ["ok", "ok", "error"]
    assert mate.said.startswith("No saved answer: ")
    assert len(model_server.requests) == 3


def test_a_prompt_to_another_session_is_asked_when_the_person_says_so(mate, model_server):
    mate.type("%%kin --session helper\nSay three.")
    assert mate.run_all() == ["ok", "ok", "ok", "error"]
    assert mate.said.startswith(NOBODY)
    model_server.enqueue("Three.")
    assert mate.ask(mate.cells[-1]) == "ok"
    assert prompts_sent(model_server) == ["Say three."]


def test_what_was_told_to_be_asked_is(mate, model_server):
    mate.type("%kin live")
    mate.type("%%kin\nSay three.")
    model_server.enqueue("Three.")
    assert mate.run_all() == ["ok", "ok", "ok", "ok", "ok"]
    assert "Three." in mate.said


def test_where_no_recording_is_found_the_answers_are_kept(mate, model_server):
    head = mate.cells[0]["source"]
    mate.cells[0]["source"] = head.replace("@", "@0")
    assert mate.run_all() == ["error", "aborted", "aborted"]
    mate.save()
    mate.cells[0]["source"] = head
    assert mate.run_all() == ["ok", "ok", "ok"]
    assert "Noted." in mate.said
    assert len(model_server.requests) == 3


def test_the_kernel_that_played_it_still_knows_what_was_saved_away(mate, model_server):
    assert mate.run_all() == ["ok", "ok", "ok"]
    for cell in mate.cells:
        cell["outputs"] = []
    mate.save()
    assert [mate.run(cell) for cell in mate.cells] == ["ok", "ok", "ok"]
    assert "Noted." in mate.said
    assert len(model_server.requests) == 3


def test_what_a_new_cell_shows_of_another_one_is_its_own_once_it_is_saved(mate, model_server):
    """The saved answer is in the metadata of the cell that asked: the new one has it in its output."""
    mate.run_all()
    mate.type("%%kin\nSay one.")
    assert mate.run(mate.cells[-1]) == "ok"
    assert mate.said.startswith("Turn 1 is shown again")
    mate.save()
    assert set(mate.run_all()) == {"ok"}
    assert mate.said.startswith("One.")
    assert len(model_server.requests) == 3
