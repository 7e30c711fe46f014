"""A session notebook that goes from one person to another and back: the page says what was answered, whatever a log has."""

from __future__ import annotations

import json
import shutil

import pytest
from nbformat.v4 import new_code_cell
from page import Page, forget_log, prompts_sent

from kin_nb.replay.format.output_records import RECORD_KEY
from tests.model_server import ModelServer

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]


def shown(page: Page) -> list[list[str]]:
    """Turns, and what was undone."""
    return [
        [output["data"]["text/plain"] for output in cell["outputs"] if RECORD_KEY in output.get("metadata", {})]
        for cell in page.cells
    ]


def asked(page: Page, server: ModelServer, text: str) -> None:
    server.enqueue(f"{text} answered.")
    assert page.add(f"%%kin\n{text}.") == "ok", page.said


def plays(page: Page, server: ModelServer) -> None:
    before, requests = shown(page), len(server.requests)
    assert set(page.run_all()) == {"ok"}, page.said
    assert shown(page) == before
    assert len(server.requests) == requests


def test_an_answer_that_a_teammate_asked_again_is_not_replaced_by_the_readers_own(page, model_server, tmp_path):
    asked(page, model_server, "Mine")
    mine = page.cells[-1]
    page.save()
    sessions = tmp_path / "kin-home" / "sessions"
    shutil.copytree(sessions, tmp_path / "my-log")
    forget_log(tmp_path)
    plays(page, model_server)
    asked(page, model_server, "Theirs")
    model_server.enqueue("Mine answered anew.")
    page.retry(mine)
    page.save()
    shutil.rmtree(sessions)
    shutil.copytree(tmp_path / "my-log", sessions)
    for _ in range(2):
        plays(page, model_server)
        assert "Mine answered anew." in str(mine["outputs"])
        page.save()
    asked(page, model_server, "Last")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Mine.", "Last."]
    assert "Mine answered anew." in str(model_server.requests[-1]["messages"])


def test_an_earlier_answer_that_a_teammate_had_shown_again_leaves_the_rest_where_it_stands(
    page, model_server, tmp_path
):
    asked(page, model_server, "Mine")
    asked(page, model_server, "Next")
    page.save()
    forget_log(tmp_path)
    plays(page, model_server)
    asked(page, model_server, "Theirs")
    page.run(page.cells[-3])
    asked(page, model_server, "Last")
    page.save()
    forget_log(tmp_path)
    plays(page, model_server)
    asked(page, model_server, "Third")
    assert prompts_sent(model_server)[2:] == ["Mine.", "Next.", "Theirs.", "Last.", "Third."]


@pytest.mark.parametrize("taken_back", ["undo", "again"])
def test_a_new_prompt_above_answers_that_were_undone_is_asked_only_below_them(page, model_server, tmp_path, taken_back):
    asked(page, model_server, "Mine")
    if taken_back == "undo":
        page.add("%kin undo 1")
    else:
        model_server.enqueue("One, again.")
        page.retry(page.cells[1])
    page.save()
    forget_log(tmp_path)
    page.type("%%kin\nBetween.")
    between = page.cells.pop()
    page.cells.insert(3, between)
    requests = len(model_server.requests)
    for statuses in (page.run_all(), page.restart_and_run_all()):
        assert statuses[3] == "error"
    assert len(model_server.requests) == requests
    model_server.enqueue("Between answered.")
    assert page.ask(between) == "ok", page.said


def test_what_was_cleared_by_hand_is_lost_and_the_error_says_what_may_bring_it_back(page, model_server):
    asked(page, model_server, "Mine")
    for cell in page.cells:
        cell["outputs"] = []
    page.save()
    requests = len(model_server.requests)
    assert page.run_all()[:3] == ["ok", "ok", "error"]
    page.run(page.cells[2])
    assert "kin-nb save SESSION NOTEBOOK.ipynb" in page.said
    assert len(model_server.requests) == requests


def test_what_was_cleared_stays_so_also_where_all_that_came_after_it_is_gone(page, model_server):
    model_server.enqueue("Cleared.")
    assert page.add("%%kin --new\nCleared.") == "ok"
    cleared = page.cells[-1]
    page.add("%kin undo 1")
    page.add("%kin redo")
    page.cells.remove(cleared)
    page.save()
    plays(page, model_server)
    asked(page, model_server, "Next")
    assert prompts_sent(model_server) == ["Next."]


def test_what_was_cleared_stays_so_where_the_clear_is_the_last_thing_on_the_page(page, model_server):
    page.add("%kin clear")
    page.save()
    plays(page, model_server)
    asked(page, model_server, "Next")
    assert prompts_sent(model_server) == ["Next."]


def test_turns_that_are_gone_keep_their_numbers_when_someone_continues(page, model_server, tmp_path):
    asked(page, model_server, "Mine")
    for letter in "AB":
        asked(page, model_server, letter)
    gone = page.cells[-2:]
    page.add("%kin undo 2")
    for cell in gone:
        page.cells.remove(cell)
    page.save()
    forget_log(tmp_path)
    plays(page, model_server)
    for number, text in enumerate(("Theirs", "More"), 6):
        model_server.enqueue(f"{text} answered.")
        page.cells.append(new_code_cell(f"%%kin\n{text}.", id=text))
        assert page.ask(page.cells[-1]) == "ok", page.said
        assert f'"turn": {number}' in json.dumps(page.cells[-1]["outputs"])
    page.save()
    forget_log(tmp_path)
    plays(page, model_server)
    asked(page, model_server, "Last")
    assert prompts_sent(model_server)[2:] == ["Mine.", "Theirs.", "More.", "Last."]


@pytest.mark.parametrize("theirs", [0, 1], ids=["fewer", "more"])
def test_cells_of_two_who_continued_from_one_place_do_not_become_one_conversation(page, model_server, tmp_path, theirs):
    """Each shows its own answer; the conversation continues below what was asked last."""
    page.save()
    mailed = page.path.read_text()
    forget_log(tmp_path)
    plays(page, model_server)
    for text in ("Theirs", "More")[: theirs + 1]:
        asked(page, model_server, text)
    pasted = page.cells[-1] | {"id": "pasted"}
    page.nb = json.loads(mailed)
    page.save()
    forget_log(tmp_path)
    plays(page, model_server)
    for text in ("Mine", "Next")[: 2 - theirs]:
        asked(page, model_server, text)
    page.cells.append(pasted)
    page.save()
    forget_log(tmp_path)
    plays(page, model_server)
    asked(page, model_server, "Last")
    last = ["Mine.", "Next."] if not theirs else ["More."]
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", *last, "Last."]


def test_the_page_counts_where_a_session_continued_and_was_not_saved(page, model_server):
    model_server.enqueue(status=400)
    assert page.add("%%kin\nMine.") == "error"
    model_server.enqueue("Mine answered.")
    page.ask(page.cells[-1])
    page.save()
    saved = page.path.read_text()
    model_server.enqueue("One, again.")
    page.retry(page.cells[1])
    page.nb = json.loads(saved)
    plays(page, model_server)
    assert page.cells[1]["outputs"][0]["data"]["text/plain"] == "One."


def test_an_undo_that_was_typed_and_saved_but_never_ran_stops_run_all_and_says_so(page, model_server):
    asked(page, model_server, "Mine")
    page.cells.insert(-1, new_code_cell("%kin undo", id="never-ran"))
    page.save()
    requests = len(model_server.requests)
    assert page.run_all()[-2:] == ["error", "aborted"]
    page.run(page.cells[-2])
    assert page.said.startswith(
        "Nothing was done: for this cell no `%kin undo` is recorded, and this notebook plays a recording."
    )
    assert len(model_server.requests) == requests
