"""A session notebook that went on live and was saved by its front end alone: run from the top, it asks no model again."""

from __future__ import annotations

import shutil

import pytest
from nbformat.v4 import new_code_cell
from notebook_client import run
from page import NOTE, prompts_sent

from kin_nb.cli import main
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import KEY
from kin_nb.replay.format.loading import load_notebook
from tests.model_server import tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]


@pytest.mark.parametrize("page", ["", "--portable"], indirect=True)
def test_run_from_the_top_the_answer_is_played_and_no_tool_runs(page, model_server, tmp_path):
    assert set(page.restart_and_run_all()) == {"ok"}
    assert "Noted." in page.said
    assert "Live from here" not in page.said
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_what_was_played_stays_in_the_file_that_the_front_end_saves_again(page, model_server):
    for _ in range(2):
        page.restart_and_run_all()
        page.save()
    assert KEY in load_notebook(page.path)["cells"][2]["outputs"][-1]["metadata"]
    assert page.restart_and_run_all() == ["ok", "ok", "ok"]
    assert len(model_server.requests) == 3


def test_it_goes_on_where_the_last_answer_ends_and_is_saved_whole(page, model_server, tmp_path):
    page.restart_and_run_all()
    model_server.enqueue("Four.")
    page.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4
    assert len(model_server.requests) == 4
    run(page.kin, "%kin live")
    page.add("%kin save")
    assert "go.2.kin.ipynb" in page.said
    saved = read_recording(load_notebook(tmp_path / "go.2.kin.ipynb"))
    assert [turn.prompt for turn in saved.turns] == ["Say one.", "Add a note.", "Say four."]


def test_in_playback_save_says_how_what_came_since_is_kept(page):
    page.restart_and_run_all()
    page.add("%kin save")
    assert "To save what it went on with too: `%kin live`, then `%kin save`" in page.said


def test_what_was_taken_back_is_taken_back_in_playback_too(page, model_server, tmp_path):
    page.add("%kin undo 1")
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4
    assert "Took back turn 2" in page.said
    model_server.enqueue("Five.")
    page.add("%%kin\nSay five.")
    assert prompts_sent(model_server) == ["Say one.", "Say five."]


def test_with_nobody_there_it_is_an_error_that_says_what_to_do(page, model_server):
    assert page.restart_and_run_all(person=False) == ["ok", "ok", "error"]
    assert page.said.startswith("The answer to this cell is in its outputs alone")
    assert "--from-outputs" in page.said
    assert len(model_server.requests) == 3


def test_an_answer_that_cannot_be_played_is_not_asked_for_again_unasked(page, model_server, tmp_path):
    kept = page.nb["cells"][2]["outputs"][-1]["metadata"][KEY]
    kept["record"]["prompt"] = "Something else."
    page.save()
    shutil.rmtree(tmp_path / "kin-home" / "sessions")
    assert page.restart_and_run_all() == ["ok", "ok", "error"]
    assert "It cannot be played: cell 3, turn 2: it was changed after it was recorded" in page.said
    assert len(model_server.requests) == 3
    model_server.enqueue("Noted anew.")
    page.nb["cells"][2]["source"] = NOTE.replace("--mode", "--redo --mode")
    assert page.run(page.nb["cells"][2]) == "ok"
    assert "Noted anew." in page.said


def test_a_new_cell_goes_on_live_whatever_the_outputs_hold(page, model_server):
    page.nb["cells"][2]["outputs"][-1]["metadata"][KEY]["record"]["prompt"] = "Something else."
    page.save()
    page.restart_and_run_all()
    model_server.enqueue("New.")
    assert page.add("%%kin\nSomething new.") == "ok"
    assert "New." in page.said


def test_a_command_that_was_left_in_takes_no_answer_away(page, model_server, tmp_path):
    page.nb["cells"].insert(2, new_code_cell("%kin save"))
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        page.save()
    assert KEY in load_notebook(page.path)["cells"][3]["outputs"][-1]["metadata"]
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_a_session_of_another_name_plays_beside_it(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.save()
    assert main(["diff", str(page.path), str(page.path)]) == 0
    for outputs in (page.cells[3]["outputs"], []):
        page.cells[3]["outputs"] = outputs
        page.save()
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Helper." in page.said
    assert len(model_server.requests) == 4
    model_server.enqueue("More help.")
    assert page.add("%%kin --session helper\nHelp more.") == "ok"
    assert "Live from here: session helper is in playback no more" in page.said
    assert prompts_sent(model_server) == ["Help.", "Help more."]
    model_server.enqueue("Four.")
    page.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_with_nobody_there_it_is_not_played(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.save()
    assert page.restart_and_run_all(person=False)[-1] == "error"
    assert len(model_server.requests) == 4


@pytest.mark.parametrize("how", ["", " --redo", " --live"])
def test_the_first_prompt_to_another_session_is_that_sessions_and_this_one_plays_on(page, model_server, tmp_path, how):
    run(page.kin, "%unload_ext kin_nb")
    for cell in page.cells[:2]:
        assert page.run(cell) == "ok"
    model_server.enqueue("Helper.")
    assert page.add(f"%%kin --session helper{how}\nHelp.") == "ok"
    assert "Live from here" not in page.said
    assert prompts_sent(model_server) == ["Help."]
    assert page.run(page.cells[2]) == "ok"
    assert "Noted." in page.said
    assert len(model_server.requests) == 4
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_what_a_named_session_was_answered_stays_in_the_file_and_goes_on(page, model_server, tmp_path):
    for answer in ("Helper 1.", "Helper 2."):
        model_server.enqueue(answer)
    page.add("%%kin --session helper\nHelp.")
    page.add("%%kin --session helper\nHelp more.")
    for _ in range(2):
        page.save()
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Helper 2." in page.said
        shutil.rmtree(tmp_path / "kin-home" / "sessions", ignore_errors=True)
    assert len(model_server.requests) == 5
    model_server.enqueue("Helper 3.")
    page.add("%%kin --session helper\nOnce more.")
    assert prompts_sent(model_server) == ["Help.", "Help more.", "Once more."]


@pytest.mark.parametrize("command", ["mode auto-approve", "undo 1", "live", "clear"])
def test_a_command_to_another_session_does_nothing_to_this_one(page, model_server, command):
    run(page.kin, "%unload_ext kin_nb")
    for cell in page.cells[:2]:
        assert page.run(cell) == "ok"
    page.command(f"%kin --session helper {command}")
    assert page.run(page.cells[2]) == "ok"
    assert "Noted." in page.said
    assert "default" in page.command("%kin mode")
    assert len(model_server.requests) == 3


def test_in_a_scratch_copy_other_sessions_play_and_do_not_go_live(page, model_server, tmp_path):
    model_server.enqueue("I note it.", calls=[tool_call("bash", command='echo "# help" >> a.py')])
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper --mode auto-approve\nHelp.")
    page.cells[0]["source"] = page.cells[0]["source"].rstrip() + " --scratch"
    page.save()
    before = (tmp_path / "a.py").read_text()
    (tmp_path / "a.py").write_text("x = 1\n")
    assert set(page.restart_and_run_all()) == {"ok"}
    page.add("print(open('a.py').read())")
    assert page.cells[-1]["outputs"][0]["text"].strip() == before.strip()
    assert page.add("%%kin --session helper\nHelp again.") == "error"
    assert page.said.startswith("This notebook plays in a scratch copy, where nothing live can begin")
    run(page.kin, "%unload_ext kin_nb")
    assert len(model_server.requests) == 5


def test_a_named_session_that_asked_again_and_took_back_stands_where_it_stood(page, model_server):
    for answer in ("Helper 1.", "Helper 2.", "Helper 3."):
        model_server.enqueue(answer)
    page.add("%%kin --session helper\nHelp.")
    page.add("%%kin --session helper\nHelp more.")
    page.cells[-1]["source"] = "%%kin --session helper --redo\nHelp more."
    page.run(page.cells[-1])
    page.add("%kin --session helper undo")
    page.save()
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Took back turn 3" in page.said
        page.save()
    model_server.enqueue("Helper 4.")
    page.add("%%kin --session helper\nOnce more.")
    assert prompts_sent(model_server) == ["Help.", "Once more."]


def test_run_all_without_a_restart_asks_no_named_session_again(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.save()
    for _ in range(2):
        assert [page.run(cell) for cell in page.cells] == ["ok"] * 4
        assert "Helper." in page.said
    assert len(model_server.requests) == 4
