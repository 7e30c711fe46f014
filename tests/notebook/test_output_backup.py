"""A Run All that stops, and the answers below: their outputs are gone from the page, and one output keeps what they carried."""

from __future__ import annotations

import json

import pytest

from kin_nb.notebook.output_backup import _MARKS
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from tests.notebook.conversation_model import read_page
from tests.notebook.in_process_page import InProcessPage, shown

KEPT_HERE = "This output keeps the answers of the cells below\n  They are shown when those cells run again."
PLAYS = "Saved answers are shown"


@pytest.fixture
def lived(page: InProcessPage, model_server) -> InProcessPage:
    """A cell of the user's own, and two answers below it; the file is saved, the kernel new. No model is asked any more."""
    page.run(page.type("value = 1"))
    page.answered("%%kin\nFirst.", "One.")
    page.answered("%%kin\nSecond.", "Two.")
    page.save()
    page.restart()
    return page


def keepers(page: InProcessPage) -> list[int]:
    """The indexes of the cells whose outputs hold a copy."""
    return [
        n
        for n, cell in enumerate(page.cells)
        if any(BACKUP_KEY in each.get("metadata", {}) for each in cell["outputs"])
    ]


def plays_whole(page: InProcessPage) -> bool:
    """Whether Run All in a new kernel shows both answers, and asks no model."""
    asked = len(page.server.requests)
    errors = page.restart_and_run_all()
    texts = [text for cell in page.cells for text in shown(cell)]
    return not any(errors) and {"One.", "Two."} <= set(texts) and len(page.server.requests) == asked


@pytest.mark.parametrize("code", ["1 / 0", "raise KeyboardInterrupt", "not Python", "%no_such_magic", "%kin redo"])
def test_a_cell_that_fails_above_all_prompts_keeps_their_answers(lived, code):
    own = lived.cells[0]
    own["source"] = code
    for _ in range(2):
        errors = lived.restart_and_run_all()
        assert (len(errors), lived.cells[1]["outputs"], lived.cells[2]["outputs"]) == (1, [], [])
        assert KEPT_HERE in shown(own)
    lived.save()
    own["source"] = "value = 2"
    assert plays_whole(lived)


def test_a_notebook_that_has_played_holds_no_copy_and_is_no_larger(lived):
    """The copy is there until the last cell carries its record again."""
    live = len(json.dumps(lived.nb))
    for cell in lived.cells:
        cell["outputs"] = []
    lived.run(lived.cells[1])
    assert keepers(lived) == [1]
    lived.run(lived.cells[2])
    assert keepers(lived) == []
    assert all(any(RECORD_KEY in each["metadata"] for each in lived.cells[n]["outputs"]) for n in (1, 2))
    assert lived.run_all() == [""] * 3
    assert keepers(lived) == []
    assert len(json.dumps(lived.nb)) < live + 2_000, "what the notice says"
    assert plays_whole(lived)


def test_a_cell_that_was_asked_again_carries_its_earlier_answers_itself(lived):
    second = lived.cells[2]

    def carries() -> list[str]:
        """The ids of the records that the cell's outputs carry, those of earlier runs last."""
        metadata = [each["metadata"] for each in second["outputs"] if "metadata" in each]
        own = [each[RECORD_KEY]["record"]["id"] for each in metadata if RECORD_KEY in each]
        return own + [each["carried"]["record"]["id"] for found in metadata for each in found.get(BACKUP_KEY, ())]

    (first,) = carries()
    assert lived.run_all() == [""] * 3
    second["source"] = "%%kin --retry\nSecond."
    assert lived.ask(second, "Two again.") == ""
    retried = carries()
    assert retried[-1] == first
    second["source"] = "%%kin\nSecond, otherwise."
    assert lived.ask(second, "Another.") == ""
    for _ in range(2):
        now = carries()
        assert set(retried) < set(now)
        assert len(now) == len(set(now))
        assert lived.restart_and_run_all() == [""] * 3
        assert keepers(lived) == [2], "its own, and no copy of the others"


def test_a_copied_cell_waits_for_its_own_outputs(lived):
    """The cell that it is a copy of carries the same record again before."""
    lived.cells.append({**json.loads(json.dumps(lived.cells[1])), "id": "copy"})
    lived.save()
    lived.restart()
    for cell in lived.cells:
        cell["outputs"] = []
    for cell in lived.cells[:3]:
        lived.run(cell)
    assert keepers(lived) == [1]
    lived.run(lived.cells[3])
    assert keepers(lived) == []


def test_so_they_are_where_the_front_end_saved_before_it_failed(lived):
    """The kernel read the file when kin_nb was loaded."""
    own = lived.cells[0]
    own["source"] = "1 / 0"
    for cell in lived.cells:
        cell["outputs"] = []
    lived.save()
    lived.run(own)
    lived.save()
    own["source"] = "value = 2"
    assert plays_whole(lived)


def test_without_a_restart_too(lived):
    own = lived.cells[0]
    assert lived.run_all() == [""] * 3
    own["source"] = "1 / 0"
    for _ in range(2):
        assert len(lived.run_all()) == 1
        lived.save()
    own["source"] = "value = 2"
    assert plays_whole(lived)


def test_where_the_answers_were_given_in_this_kernel_and_no_file_has_them(page):
    page.run(own := page.type("value = 1"))
    page.answered("%%kin\nFirst.", "One.")
    page.answered("%%kin\nSecond.", "Two.")
    own["source"] = "1 / 0"
    assert len(page.run_all()) == 1
    page.save()
    own["source"] = "value = 2"
    assert plays_whole(page)


def test_below_a_prompt_that_plays_that_one_keeps_them(lived):
    own = lived.type("1 / 0", at=2)
    for restart in (True, False):
        if restart:
            lived.save()
            lived.restart()
        assert len(lived.run_all()) == 3
        assert keepers(lived) == [1]
        assert shown(own) == ["division by zero"]
    lived.save()
    own["source"] = "value = 2"
    assert plays_whole(lived)


def test_once_the_cell_runs_well_the_next_answer_keeps_them(lived):
    own = lived.cells[0]
    own["source"] = "1 / 0"
    lived.restart_and_run_all()
    assert keepers(lived) == [0]
    own["source"] = "value = 2"
    last = lived.type("1 / 0", at=2)
    assert len(lived.run_all()) == 3
    assert keepers(lived) == [1]
    lived.save()
    last["source"] = "value = 3"
    assert plays_whole(lived)


def test_a_cell_that_fails_below_all_answers_shows_its_error_alone(lived):
    own = lived.type("1 / 0")
    assert len(lived.restart_and_run_all()) == 4
    assert shown(own) == ["division by zero"]


def test_so_does_one_in_a_notebook_without_records(page):
    own = page.type("1 / 0")
    page.type("%%kin\nFirst.")
    page.save()
    page.restart()
    page.run(own)
    assert shown(own) == ["division by zero"]


def test_so_does_one_that_may_fail_and_one_where_no_one_reads_along(lived):
    own = lived.cells[0]
    own["source"] = "1 / 0"
    lived.save()
    lived.restart()
    lived.run(own, cell_id=False)
    assert shown(own) == ["division by zero"]
    own["metadata"]["tags"] = ["raises-exception"]
    lived.run(own)
    assert shown(own) == ["division by zero"]


def test_a_session_notebook_whose_cells_hold_their_records_needs_no_copy(lived):
    lived.command("%kin save")
    lived.open(lived.file.with_name("talk.kin.ipynb"))
    lived.cells[1]["source"] = "1 / 0"
    assert len(lived.restart_and_run_all()) == 2
    assert keepers(lived) == []


def test_a_replay_cell_that_fails_keeps_what_came_since(lived):
    lived.command("%kin save")
    lived.open(lived.file.with_name("talk.kin.ipynb"))
    assert set(lived.run_all()) == {""}
    lived.answered("%%kin\nThird.", "Three.")
    head = lived.cells[0]["source"]
    lived.cells[0]["source"] = head.replace("@", "@0")
    assert len(lived.restart_and_run_all()) == 1
    assert shown(lived.cells[0])[-1] == KEPT_HERE
    lived.save()
    lived.cells[0]["source"] = head
    assert plays_whole(lived)
    assert "Three." in shown(lived.cells[-1])


def test_what_was_deleted_is_not_kept(lived):
    lived.run_all()
    del lived.cells[1]
    lived.save()
    own = lived.cells[0]
    own["source"] = "1 / 0"
    lived.run_all()
    assert "One." not in json.dumps(lived.cells)
    assert "Two." in json.dumps(lived.cells)


def test_saved_the_cell_has_its_own_outputs_alone(lived):
    own = lived.cells[0]
    own["source"] = "1 / 0"
    lived.restart_and_run_all()
    lived.save()
    assert lived.command("%kin save").startswith("Saved ")
    saved = read_page(lived.file.with_name("talk.kin.ipynb"))
    assert [len(cell["outputs"]) for cell in saved["cells"][1:2]] == [1]
    assert BACKUP_KEY not in json.dumps(saved)
    lived.open(lived.file.with_name("talk.kin.ipynb"))
    assert lived.run_all(stops=False) == ["", "division by zero", "", ""]
    assert shown(lived.cells[1]) == ["division by zero"]
    assert shown(lived.cells[3])[0] == "Two."


def test_the_answer_that_plays_first_keeps_them_each_time_it_runs(lived):
    for _ in range(2):
        for cell in lived.cells:
            cell["outputs"] = []
        lived.run(lived.cells[0])
        lived.run(lived.cells[1])
        assert keepers(lived) == [1]
        assert shown(lived.cells[1])[0].startswith(PLAYS)
        lived.run(lived.cells[2])
        assert keepers(lived) == []


def test_what_tells_a_file_with_records_is_what_they_are_stored_as():
    assert [mark.decode() for mark in _MARKS] == [RECORD_KEY, BACKUP_KEY]
