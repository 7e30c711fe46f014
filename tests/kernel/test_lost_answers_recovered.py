"""A session notebook that went on live, and whose file lost answers: its first cell keeps a copy, and the log may have them."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell
from notebook_client import run
from page import Page, forget_log, prompts_sent

from kin_nb.core.session.log import LOG_NAME
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from kin_nb.replay.saving.build import session_notebook
from tests.unit.replay.sessions import recording

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]
NOTE_ASKED = "Add a note."


def test_a_cell_that_says_retry_is_not_asked_again_for_that(page, model_server, tmp_path):
    """Its answer is played, as that of any other."""
    model_server.enqueue("Better.")
    page.retry(page.cells[2])
    page.save()
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Better." in page.said
        page.save()
    assert len(model_server.requests) == 4


def test_two_cells_of_one_text_play_each_its_own(page, model_server):
    for answer in ("Go 1.", "Go 2."):
        model_server.enqueue(answer)
        page.add("%%kin\nGo on.")
    page.save()
    assert set(page.restart_and_run_all()) == {"ok"}
    assert ["Go 1." in str(page.cells[-2]["outputs"]), "Go 2." in page.said] == [True, True]
    assert len(model_server.requests) == 5


def test_in_a_scratch_copy_its_files_change_there(page, model_server, tmp_path):
    head = page.cells[0]
    head["source"] = head["source"].rstrip() + " --scratch"
    (tmp_path / "a.py").write_text("x = 1\n")
    assert set(page.restart_and_run_all()) == {"ok"}
    assert "Noted." in page.said
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    page.add("from pathlib import Path; print(Path('a.py').read_text())")
    run(page.kin, "%unload_ext kin_nb")
    assert "# note" in page.cells[-1]["outputs"][0]["text"]
    assert len(model_server.requests) == 3


def test_what_only_the_log_has_comes_back_with_the_command_that_the_error_names(
    page, model_server, tmp_path, monkeypatch
):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "kin-home"))
    logs = (tmp_path / "kin-home" / "sessions").glob(f"*/{LOG_NAME}")
    log = next(path.parent.name for path in logs if NOTE_ASKED in path.read_text())
    page.cells[2]["outputs"] = []
    page.save()
    assert page.restart_and_run_all() == ["ok", "ok", "error"]
    assert "kin-nb save SESSION NOTEBOOK.ipynb" in page.said
    assert len(model_server.requests) == 3
    SaveCommand(log, page.path).run()
    page.nb = Page(page.kin, page.path).nb
    assert set(page.restart_and_run_all()) == {"ok"}
    assert "Noted." in page.said
    assert len(model_server.requests) == 3


def test_an_edited_prompt_says_what_was_answered_in_its_cell(page, model_server):
    page.cells[2]["source"] = "%%kin\nAdd a longer note."
    page.save()
    for _ in range(2):
        assert page.restart_and_run_all() == ["ok", "ok", "error"]
        assert "The saved answer of this cell (turn 2) is for another prompt" in page.said
        page.save()
    assert len(model_server.requests) == 3
    model_server.enqueue("A longer note.")
    page.cells[2]["source"] = "%%kin --retry\nAdd a longer note."
    assert page.run(page.cells[2]) == "ok"
    assert "Undid turn 2" in str(page.cells[2]["outputs"])
    assert prompts_sent(model_server) == ["Say one.", "Add a longer note."]


@pytest.mark.parametrize("name", ["", " --session helper"])
def test_cells_that_were_asked_again_as_new_turns_show_what_they_showed(page, model_server, name):
    for answer in ("A1.", "B1.", "A2.", "B2."):
        model_server.enqueue(answer)
    cells = [f"%%kin{name}\nPrompt {letter}." for letter in "AB"]
    for cell in cells:
        page.add(cell)
    page.live(*page.cells[3:])
    page.save()
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        assert ["A2." in str(page.cells[3]["outputs"]), "B2." in page.said] == [True, True]
        page.save()
    assert len(model_server.requests) == 7
    model_server.enqueue("C.")
    page.add(f"%%kin{name}\nPrompt C.")
    assert prompts_sent(model_server)[-3:] == ["Prompt A.", "Prompt B.", "Prompt C."]


@pytest.mark.parametrize("name", ["", " --session helper"])
def test_a_notebook_that_recorded_nothing_gets_nothing_private_for_the_id_of_a_cell(
    page, opens, kin, model_server, tmp_path, name
):
    model_server.enqueue("Private answer.")
    page.add("%%kin\nPrivate prompt.")
    run(kin, "%unload_ext kin_nb")
    empty = recording()
    opens(tmp_path / "strange.ipynb")
    strange = Page(kin, tmp_path / "strange.ipynb")
    strange.nb = session_notebook(empty)
    strange.cells.append(new_code_cell(f"%%kin{name}\nTell me.", id=page.cells[-1]["id"]))
    strange.save()
    model_server.enqueue("What?")
    assert strange.restart_and_run_all() == ["ok", "error"]
    assert strange.ask(strange.cells[1]) == "ok"
    assert "rivate" not in str(strange.cells)
    assert prompts_sent(model_server) == ["Tell me."]


@pytest.fixture
def handed_on(page, tmp_path):
    """A teammate's: there is no log. All was run once."""
    forget_log(tmp_path)
    page.restart_and_run_all()
    page.save()
    return page


def test_where_there_is_no_log_the_first_cell_has_what_the_outputs_lost(handed_on, model_server):
    """Run All stopped above, the notebook was saved so; what stopped it goes, and all is run once more."""
    run(handed_on.kin, "%unload_ext kin_nb")
    for cell in handed_on.cells:
        cell["outputs"] = []
    for cell in handed_on.cells[:2]:
        handed_on.run(cell)
    handed_on.save()
    for _ in range(2):
        assert handed_on.restart_and_run_all() == ["ok"] * 3
        assert "Noted." in handed_on.said
    assert len(model_server.requests) == 3
    handed_on.save()
    model_server.enqueue("Four.")
    handed_on.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_an_edited_prompt_that_is_restored_plays_and_so_do_those_below(handed_on, model_server):
    model_server.enqueue("Three.")
    handed_on.add("%%kin\nSay three.")
    handed_on.save()
    handed_on.restart_and_run_all()
    handed_on.save()
    text = handed_on.cells[2]["source"]
    handed_on.cells[2]["source"] = "%%kin\nAdd another note."
    for cell in handed_on.cells[1:]:
        cell["outputs"] = []
    run(handed_on.kin, "%unload_ext kin_nb")
    assert [handed_on.run(cell) for cell in handed_on.cells[:3]] == ["ok", "ok", "error"]
    handed_on.save()
    handed_on.cells[2]["source"] = text  # on the page alone
    assert handed_on.restart_and_run_all() == ["ok"] * 4
    assert "Three." in handed_on.said
    assert len(model_server.requests) == 4


def test_what_was_deleted_does_not_come_back(handed_on, model_server):
    del handed_on.cells[2]
    handed_on.save()
    handed_on.restart_and_run_all()
    model_server.enqueue("Two.")
    assert handed_on.add("%%kin\nSay two.") == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Say two."]


def test_a_record_that_was_edited_stays_an_error_and_no_model_is_asked(page, model_server):
    model_server.enqueue("Three.")
    page.add("%%kin\nSay three.")
    page.cells[2]["outputs"][-1]["metadata"][RECORD_KEY]["record"]["prompt"] = "Something else."
    page.cells.insert(2, page.cells.pop(3))
    page.save()
    for _ in range(3):
        assert page.restart_and_run_all()[2] == "error"
        page.save()
    assert len(model_server.requests) == 4


def test_with_no_one_there_the_first_cell_shows_what_was_saved(page):
    page.restart_and_run_all(person=False)
    assert BACKUP_KEY not in page.cells[0]["outputs"][0]["metadata"]
    run(page.kin, "%unload_ext kin_nb")
    page.run(page.cells[0])
    assert BACKUP_KEY in page.cells[0]["outputs"][0]["metadata"]
    for cell in page.cells[1:]:
        page.run(cell)
    assert BACKUP_KEY not in page.cells[0]["outputs"][0]["metadata"], "all cells carry theirs again"
