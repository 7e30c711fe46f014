"""A session notebook that was continued live and was saved by its front end alone: run from the top, it asks no model again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nbformat.v4 import new_code_cell
from notebook_client import run
from page import forget_log, prompts_sent, with_and_without_log

from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.output_records import RECORD_KEY
from tests.model_server import ModelServer

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]


@contextmanager
def no_request(server: ModelServer) -> Iterator[None]:
    """No model is asked."""
    before = len(server.requests)
    yield
    assert len(server.requests) == before


@pytest.mark.parametrize("page", ["", "--portable"], indirect=True)
def test_run_from_the_top_the_answer_is_played_and_no_tool_runs(page, model_server, tmp_path):
    assert set(page.restart_and_run_all()) == {"ok"}
    assert "Noted." in page.said
    assert "Playback left" not in page.said
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_what_was_played_stays_in_the_file_that_the_front_end_saves_again(page, model_server):
    for _ in range(2):
        page.restart_and_run_all()
        page.save()
    assert RECORD_KEY in load_notebook(page.path)["cells"][2]["outputs"][-1]["metadata"]
    assert page.restart_and_run_all() == ["ok", "ok", "ok"]
    assert len(model_server.requests) == 3


def test_it_continues_where_the_last_answer_ends_and_is_saved_whole(page, model_server, tmp_path):
    page.restart_and_run_all()
    model_server.enqueue("Four.")
    page.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4
    assert len(model_server.requests) == 4
    page.add("%kin save")
    assert "go.2.kin.ipynb" in page.said
    saved = read_recording(load_notebook(tmp_path / "go.2.kin.ipynb"))
    assert [turn.prompt for turn in saved.turns] == ["Say one.", "Add a note.", "Say four."]


def test_in_playback_what_came_since_is_saved_too(page, tmp_path):
    page.restart_and_run_all()
    page.add("%kin save")
    saved = read_recording(load_notebook(tmp_path / "go.2.kin.ipynb"))
    assert [turn.prompt for turn in saved.turns] == ["Say one.", "Add a note."]


def test_what_was_undone_is_undone_in_playback_too(page, model_server, tmp_path):
    page.add("%kin undo 1")
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4
    assert "Undid turn 2" in page.said
    model_server.enqueue("Five.")
    page.add("%%kin\nSay five.")
    assert prompts_sent(model_server) == ["Say one.", "Say five."]


def test_with_no_one_there_it_plays_too(page, model_server):
    assert page.restart_and_run_all(person=False) == ["ok", "ok", "ok"]
    assert "Noted." in page.said
    assert len(model_server.requests) == 3


def test_with_no_one_there_a_new_prompt_is_an_error_that_says_what_to_do(page, model_server):
    page.type("%%kin\nSomething new.")
    assert page.restart_and_run_all(person=False) == ["ok", "ok", "ok", "error"]
    assert page.said.startswith("No saved answer: ")
    assert "KIN_RECORD=new" in page.said
    assert len(model_server.requests) == 3


def test_a_record_that_was_edited_by_hand_plays_nothing_and_is_named(page, model_server):
    page.cells[2]["outputs"][-1]["metadata"][RECORD_KEY]["record"]["prompt"] = "Something else."
    page.save()
    assert page.restart_and_run_all() == ["error", "error", "error"]
    assert "This cell has no saved answer: `%kin replay` failed above." in page.said
    page.run(page.cells[0])
    assert "cell 3, turn 2: it was changed after it was recorded" in page.said
    assert len(model_server.requests) == 3
    page.command("%kin live")
    model_server.enqueue("New.")
    assert page.add("%%kin\nSomething new.") == "ok"
    assert "New." in page.said


def test_a_command_that_was_left_in_takes_no_answer_away(page, model_server, tmp_path):
    page.nb["cells"].insert(2, new_code_cell("%kin save"))
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        page.save()
    assert RECORD_KEY in load_notebook(page.path)["cells"][3]["outputs"][-1]["metadata"]
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_a_new_cell_with_a_text_that_was_asked_shows_that_turn_and_how_to_ask_it_again(page, model_server):
    model_server.enqueue("Going.")
    page.add("%%kin\nGo on.")
    page.save()
    page.restart_and_run_all()
    assert "again" not in page.said
    assert page.add("%%kin\nGo on.") == "ok"
    assert page.said.startswith(
        "Turn 3 is shown again\n  Another cell asked it. To ask the model again: `%kin live`, then run"
    )
    assert "Going." in page.said
    assert len(model_server.requests) == 4
    page.run(page.cells[3])
    assert "again" not in page.said
    model_server.enqueue("Gone.")
    page.command("%kin live")
    page.run(page.cells[4])
    assert "Gone." in page.said
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Go on.", "Go on."]


@pytest.mark.parametrize("name", ["", " --session helper"])
def test_a_cell_asked_again_from_where_it_stood_plays_and_so_does_one_below_that_was_undone_with_it(
    page, model_server, tmp_path, name, subtests
):
    for answer in ("A1.", "B1.", "A2."):
        model_server.enqueue(answer)
    for letter in "AB":
        page.add(f"%%kin{name}\nPrompt {letter}.")
    page.retry(page.cells[3])
    page.save()
    for log in with_and_without_log(page, tmp_path):
        with subtests.test(log=log), no_request(model_server):
            for _ in range(2):
                assert set(page.restart_and_run_all()) == {"ok"}
                assert "A2." in str(page.cells[3]["outputs"])
                assert "B1." in page.said
                page.save()
        with subtests.test("continued", log=log):
            model_server.enqueue("C.")
            page.add(f"%%kin{name}\nPrompt C.")
            assert prompts_sent(model_server)[-2:] == ["Prompt A.", "Prompt C."]
            assert "Prompt B." not in prompts_sent(model_server)


@pytest.mark.parametrize(("rule", "sent"), [("retry", []), ("live", ["Say one.", "Add a note."])])
def test_a_recorded_cell_that_was_asked_again_live_shows_what_it_showed(
    page, model_server, tmp_path, rule, sent, subtests
):
    for answer in ("Anew.", "Later."):
        model_server.enqueue(answer)
    getattr(page, rule)(page.cells[1])
    page.add("%%kin\nLater.")
    page.save()
    for log in with_and_without_log(page, tmp_path):
        with subtests.test(log=log), no_request(model_server):
            for _ in range(2):
                assert set(page.restart_and_run_all()) == {"ok"}
                assert "Anew." in str(page.cells[1]["outputs"])
                assert ("Undid turns 1, 2" in str(page.cells[1]["outputs"])) == (rule == "retry")
                assert "Later." in page.said
                page.save()
        with subtests.test("continued", log=log):
            model_server.enqueue("Next.")
            assert page.add("%%kin\nNext.") == "ok"
            assert prompts_sent(model_server) == [*sent, "Say one.", "Later.", "Next."]


@pytest.mark.parametrize("rule", ["retry", "live"])
def test_one_that_was_asked_again_twice_shows_what_it_showed(page, model_server, tmp_path, rule, subtests):
    for answer in ("Anew 1.", "Anew 2."):
        model_server.enqueue(answer)
        getattr(page, rule)(page.cells[1])
    page.save()
    for log in with_and_without_log(page, tmp_path):
        with subtests.test(log=log), no_request(model_server):
            run(page.kin, "%unload_ext kin_nb")
            assert [page.run(cell) for cell in page.cells[:2]] == ["ok", "ok"]
            assert "Anew 2." in page.said


@pytest.mark.parametrize("name", ["", " --session helper"])
def test_below_a_cell_that_was_asked_again_an_undo_plays_too(page, model_server, tmp_path, name, subtests):
    for answer in ("A1.", "A2.", "B."):
        model_server.enqueue(answer)
    page.add(f"%%kin{name}\nPrompt A.")
    page.retry(page.cells[3])
    page.add(f"%kin{name} undo")
    page.add(f"%%kin{name}\nPrompt B.")
    page.save()
    for log in with_and_without_log(page, tmp_path):
        with subtests.test(log=log), no_request(model_server):
            for _ in range(2):
                assert set(page.restart_and_run_all()) == {"ok"}
                assert "A2." in str(page.cells[3]["outputs"])
                assert "Undid turn" in str(page.cells[4]["outputs"])
                assert "B." in page.said
                page.save()
        with subtests.test("continued", log=log):
            model_server.enqueue("C.")
            page.add(f"%%kin{name}\nPrompt C.")
            assert prompts_sent(model_server)[-2:] == ["Prompt B.", "Prompt C."]
            assert "Prompt A." not in prompts_sent(model_server)


def test_an_undo_below_a_cell_that_was_run_again_later_shows_its_card_and_moves_nothing(page, model_server):
    page.add("%kin undo")
    model_server.enqueue("Noted anew.")
    page.retry(page.cells[2])
    page.save()
    for _ in range(2):
        assert page.restart_and_run_all() == ["ok"] * 4
        assert "Noted anew." in str(page.cells[2]["outputs"])
        assert page.said.startswith("Undid turn 2")
        page.save()
    model_server.enqueue("Four.")
    assert page.add("%%kin\nSay four.") == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_live_at_once_it_continues_from_all_that_the_outputs_have(page, model_server, tmp_path):
    model_server.enqueue("Three.")
    page.add("%%kin\nSay three.")
    model_server.enqueue("Noted anew.")
    page.retry(page.cells[2])
    page.save()
    forget_log(tmp_path)
    run(page.kin, "%unload_ext kin_nb")
    page.run(page.cells[0])
    page.command("%kin live")
    model_server.enqueue("Four.")
    assert page.add("%%kin\nSay four.") == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_what_this_kernel_made_is_known_though_the_file_was_not_saved_since(page, model_server):
    """A cell was asked again, and Run All came before Ctrl-S."""
    model_server.enqueue("Not again.")
    page.retry(page.cells[2])
    assert "Not again." in str(page.cells[2]["outputs"])
    for cell in page.cells:
        page.run(cell)
    assert "Not again." in page.said
    model_server.enqueue("Four.")
    assert page.add("%%kin\nSay four.") == "ok"
    assert model_server.requests[-1]["messages"][-2]["content"] == "Not again."


def test_a_teammate_whose_file_lacks_turns_continues_and_undoes_and_the_next_one_plays_that(
    page, model_server, tmp_path
):
    for answer in ("Three.", "Noted anew.", "Four.", "Five."):
        model_server.enqueue(answer)
    page.add("%%kin\nSay three.")
    page.retry(page.cells[2])
    page.add("%%kin\nSay four.")
    page.save()
    forget_log(tmp_path)
    page.restart_and_run_all()
    page.add("%%kin\nSay five.")
    page.add("%kin undo 2")
    page.save()
    forget_log(tmp_path)
    for _ in range(2):
        assert page.restart_and_run_all() == ["ok"] * 7
        assert page.said.startswith("Undid turns 5, 6")
        page.save()
    model_server.enqueue("Six.")
    assert page.add("%%kin\nSay six.") == "ok"
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say six."]
