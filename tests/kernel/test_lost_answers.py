"""A session notebook that went on live, and whose file lost the answers below: the log has them, and they are played."""

from __future__ import annotations

import pytest
from kin_nb.replay.format.kept import KEPT
from nbformat.v4 import new_code_cell
from notebook_client import kept_outputs, run
from page import Page, forget_log, prompts_sent

from kin_nb.core.session.log import LOG_NAME, SessionLog
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.saving.making import session_notebook
from tests.unit.replay.sessions import recording

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]


@pytest.fixture
def lost(page: Page) -> Page:
    """A cell above failed, so the front end saved no outputs of those below."""
    page.cells[2]["outputs"] = []
    page.save()
    return page


def test_it_is_played_and_in_the_file_again(lost, model_server, tmp_path):
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Noted." in lost.said
    assert "Live from here" not in lost.said
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"
    lost.save()
    forget_log(tmp_path)
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Noted." in lost.said
    model_server.enqueue("Four.")
    assert lost.add("%%kin\nSay four.") == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_it_may_be_asked_for_again_from_where_it_stood(lost, model_server, tmp_path):
    lost.restart_and_run_all()
    model_server.enqueue("Not this time.")
    lost.cells[2]["source"] = "%%kin --retry --mode auto-approve\nAdd a note."
    assert lost.run(lost.cells[2]) == "ok"
    assert "Not this time." in lost.said
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


def test_what_was_taken_back_is_played_and_so_is_what_took_it_back(lost, model_server, tmp_path):
    lost.add("%kin undo 3")
    model_server.enqueue("Three.")
    lost.add("%%kin\nSay three.")
    for cell in lost.cells[2:]:
        cell["outputs"] = []
    lost.save()
    for _ in range(2):
        assert set(lost.restart_and_run_all()) == {"ok"}
        assert "Took back turns 1, 2" in str(lost.cells[3]["outputs"])
        assert "Three." in lost.said
        lost.save()
    assert len(model_server.requests) == 4
    model_server.enqueue("Four.")
    lost.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say three.", "Say four."]


def test_a_cell_that_says_redo_is_not_asked_again_for_that(lost, model_server, tmp_path):
    """Its answer is played, as that of any other; newly typed it asks."""
    model_server.enqueue("Better.")
    lost.cells[2]["source"] = "%%kin --retry\nAdd a better note."
    assert lost.run(lost.cells[2]) == "ok"
    for outputs in (lost.cells[2]["outputs"], []):
        lost.cells[2]["outputs"] = outputs
        lost.save()
        assert set(lost.restart_and_run_all()) == {"ok"}
        assert "Better." in lost.said
    lost.save()
    forget_log(tmp_path)
    assert set(lost.restart_and_run_all()) == {"ok"}, "nor by a teammate, who has no log"
    assert "Better." in lost.said
    assert len(model_server.requests) == 4


def test_each_cell_plays_the_answer_that_stands(lost, model_server):
    """The first was asked again from where it stood, then the one below it was run again."""
    model_server.enqueue("Three, old.")
    lost.add("%%kin\nSay three.")
    for cell, answer in zip(lost.cells[2:], ("Noted anew.", "Three, new."), strict=True):
        model_server.enqueue(answer)
        ran = lost.kin.run(cell["source"], cell=cell["id"])
        if answer == "Noted anew.":
            lost.kin.card(ran, "This cell has an answer already")
            lost.kin.click("Ask again from where it stood")
        lost.kin.done(ran)
        cell["outputs"] = kept_outputs(lost.kin, ran)
    requests = len(model_server.requests)
    for outputs in ([cell["outputs"] for cell in lost.cells[2:]], [[], []]):
        for cell, each in zip(lost.cells[2:], outputs, strict=True):
            cell["outputs"] = each
        lost.save()
        assert set(lost.restart_and_run_all()) == {"ok"}
        assert "Noted anew." in str(lost.cells[2]["outputs"])
        assert "Three, new." in lost.said
    assert len(model_server.requests) == requests
    model_server.enqueue("Four.")
    assert lost.add("%%kin\nSay four.") == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say three.", "Say four."]


def test_two_cells_of_one_text_play_each_its_own(lost, model_server):
    for answer in ("Go 1.", "Go 2."):
        model_server.enqueue(answer)
        lost.add("%%kin\nGo on.")
    for cell in lost.cells[2:]:
        cell["outputs"] = []
    lost.save()
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Go 2." in lost.said
    assert len(model_server.requests) == 5


def test_the_same_prompt_in_a_new_cell_is_a_new_one(lost, model_server):
    lost.cells[2] = new_code_cell(lost.cells[2]["source"])
    lost.save()
    model_server.enqueue("Noted in a new cell.")
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Noted in a new cell." in lost.said


def test_with_nobody_there_nothing_is_looked_for(lost, model_server):
    assert lost.restart_and_run_all(person=False) == ["ok", "ok", "error"]
    assert "This notebook is in playback and calls no model" in lost.said
    assert len(model_server.requests) == 3


def test_a_session_that_is_open_in_another_kernel_is_read_all_the_same(lost, model_server, tmp_path):
    run(lost.kin, "%unload_ext kin_nb")
    logs = [
        SessionLog.lock(path.parent.name, path.parent)
        for path in (tmp_path / "kin-home" / "sessions").glob(f"*/{LOG_NAME}")
    ]
    try:
        assert set(lost.restart_and_run_all()) == {"ok"}
    finally:
        for log in logs:
            log.close()
    assert "Noted." in lost.said
    model_server.enqueue("Four.")
    lost.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_in_a_scratch_copy_it_is_found_and_its_files_change_there(lost, model_server, tmp_path):
    head = lost.cells[0]
    head["source"] = head["source"].rstrip() + " --scratch"
    (tmp_path / "a.py").write_text("x = 1\n")
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Noted." in lost.said
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    lost.add("print(open('a.py').read())")
    run(lost.kin, "%unload_ext kin_nb")
    assert "# note" in lost.cells[-1]["outputs"][0]["text"]
    assert len(model_server.requests) == 3


def test_an_answer_to_an_edited_prompt_is_found_too(page, model_server):
    """The log has both, and the turn between was taken back."""
    run(page.kin, "%kin undo")
    model_server.enqueue("Another note.")
    page.cells[2]["source"] = "%%kin\nAdd another."
    page.run(page.cells[2])
    page.cells[2]["outputs"] = []
    page.save()
    requests = len(model_server.requests)
    assert set(page.restart_and_run_all()) == {"ok"}
    assert "Another note." in page.said
    assert len(model_server.requests) == requests
    model_server.enqueue("Four.")
    page.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add another.", "Say four."]


def test_an_edited_prompt_says_what_was_answered_in_its_cell(page, model_server):
    """Its outputs say so, then the log."""
    lost = page
    lost.cells[2]["source"] = "%%kin\nAdd a longer note."
    lost.save()
    for _ in range(2):
        assert lost.restart_and_run_all() == ["ok", "ok", "error"]
        assert "turn 2 was recorded in this cell, with another text" in lost.said
        lost.save()
    assert len(model_server.requests) == 3
    model_server.enqueue("A longer note.")
    lost.cells[2]["source"] = "%%kin --retry\nAdd a longer note."
    assert lost.run(lost.cells[2]) == "ok"
    assert "Took back turn 2" in str(lost.cells[2]["outputs"])
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
    assert prompts_sent(model_server)[-5:] == ["Prompt A.", "Prompt B.", "Prompt A.", "Prompt B.", "Prompt C."]


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
    assert strange.restart_and_run_all() == ["ok", "ok"]
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
    handed_on.cells[2]["outputs"] = []
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


def test_what_cannot_be_played_stays_an_error_and_no_model_is_asked(page, model_server, tmp_path):
    model_server.enqueue("Three.")
    page.add("%%kin\nSay three.")
    page.cells[2]["outputs"][-1]["metadata"][KEY]["record"]["prompt"] = "Something else."
    page.cells.insert(2, page.cells.pop(3))
    forget_log(tmp_path)
    page.save()
    for _ in range(3):
        assert page.restart_and_run_all()[2] == "error"
        assert "It cannot be played: cell 4, turn 2: it was changed after it was recorded" in page.said
        page.save()
    assert len(model_server.requests) == 4


def test_with_nobody_there_the_first_cell_shows_what_was_saved(page):
    page.restart_and_run_all(person=False)
    assert KEPT not in page.cells[0]["outputs"][0]["metadata"]
    page.restart_and_run_all()
    assert KEPT in page.cells[0]["outputs"][0]["metadata"]
