"""docs/reference/playback.md, "What happened to the cell, and what you see": row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.notebook_codec import raw_records
from tests.flow import FLOW
from tests.model_server import ModelServer, tool_call
from tests.notebook.conversation_model import copy_of, read_page
from tests.notebook.in_process_page import InProcessPage, prompts_sent, replies, shown

FIRST, SECOND = "%%kin\nFirst.", "%%kin\nSecond."
AGAIN = "Another cell asked it. To ask the model again: `%kin live`, then run this cell again."


@pytest.fixture
def lived(page: InProcessPage, model_server: ModelServer) -> Iterator[InProcessPage]:
    """Two answers, saved by the front end; the kernel is new. What a test does not ask itself is played."""
    page.answered(FIRST, "One.")
    page.answered(SECOND, "Two.")
    page.save()
    page.restart()
    return page


def plays(page: InProcessPage) -> list[list[str]]:
    """The replies of each cell, after Ctrl-S, in a new kernel, by Run All, which ends well and asks no model."""
    asked = len(page.server.requests)
    assert set(page.restart_and_run_all()) == {""}
    assert len(page.server.requests) == asked
    return [replies(cell) for cell in page.cells]


def goes_on(page: InProcessPage) -> list[str]:
    """What the user has said in a request that a new prompt sends, that prompt apart."""
    page.answered("%%kin\nThe next.", "The end.")
    return prompts_sent(page.server)[:-1]


@pytest.mark.row("moved")
def test_a_cell_that_was_moved(lived):
    lived.cells.reverse()
    assert plays(lived) == [["Two."], ["One."]]


@pytest.mark.row("copied")
@pytest.mark.parametrize("is_saved", [True, False])
def test_a_cell_that_was_copied(lived, is_saved):
    copied = copy_of(lived.cells[0]) | {"id": "copy"}
    if is_saved:
        lived.cells.append(copied)
        assert plays(lived) == [["One."], ["Two."], ["One."]]
        assert AGAIN not in json.dumps(copied)
        return
    assert set(lived.run_all()) == {""}
    lived.cells.append(copied)
    assert lived.run(copied) == ""
    assert replies(copied) == ["One."]
    assert shown(copied)[0] == f"Turn 1 is shown again\n  {AGAIN}"
    assert plays(lived) == [["One."], ["Two."], ["One."]]


@pytest.mark.row("pasted from another notebook")
@pytest.mark.parametrize("is_saved", [True, False])
def test_a_cell_that_was_pasted_from_another_notebook(lived, tmp_path, model_server, is_saved):
    if is_saved:
        lived.command("%kin save")
        lived.open(lived.file.with_name("talk.kin.ipynb"))
    pasted = copy_of(lived.cells[-1])
    with InProcessPage(tmp_path / "another", model_server) as other:
        other.answered("%%kin\nThird.", "Three.")
        other.cells.append(pasted)
        assert plays(other) == [["Three."], ["Two."]]


@pytest.mark.row("typed again in a new cell")
def test_a_text_that_was_typed_again(lived):
    assert set(lived.run_all()) == {""}
    typed = lived.type(SECOND)
    assert lived.run(typed) == ""
    assert replies(typed) == ["Two."]
    assert shown(typed)[0] == f"Turn 2 is shown again\n  {AGAIN}"


@pytest.mark.row("two cells with one text")
def test_two_cells_with_one_text(lived):
    lived.command("%kin live")
    lived.answered(FIRST, "One, to another.")
    assert plays(lived) == [["One."], ["Two."], ["One, to another."]]
    typed = lived.type(FIRST)
    assert "2 cells have this text" in lived.run(typed)


@pytest.mark.row("deleted")
def test_a_cell_that_was_deleted(lived):
    del lived.cells[0]
    assert plays(lived) == [["Two."]]
    assert goes_on(lived) == ["Second."]
    assert "The conversation continues without 1 record" in json.dumps(lived.cells[-1])


@pytest.mark.row("edited")
def test_a_prompt_that_was_edited(lived, model_server):
    lived.cells[0]["source"] = "%%kin\nFirst of all."
    errors = lived.restart_and_run_all(stops=False)
    assert errors[1] == ""
    for part in ("is for another prompt", "- First.", "+ First of all.", "Restore the text", "`%%kin --retry`"):
        assert part in errors[0]
    assert len(model_server.requests) == 2
    lived.cells[0]["source"] = "%%kin --retry\nFirst of all."
    assert lived.ask(lived.cells[0], "One, again.") == ""
    assert prompts_sent(model_server) == ["First of all."]


@pytest.mark.row("edited, and edited back")
def test_a_prompt_that_was_edited_back(lived):
    lived.cells[0]["source"] = "%%kin\nFirst of all."
    lived.restart_and_run_all()
    lived.cells[0]["source"] = FIRST
    assert plays(lived) == [["One."], ["Two."]]


@pytest.mark.row("undone (`%kin undo` below it)")
def test_an_answer_that_was_undone(lived, model_server):
    lived.command("%kin live")
    model_server.enqueue("I write.", calls=[tool_call("write_file", path="a.txt", content="x\n")], chunk=1000)
    lived.answered("%%kin --mode auto-approve\nThird.", "Three.")
    file = lived.file.with_name("a.txt")
    assert file.exists()
    assert lived.run(lived.type("%kin undo")) == ""
    assert not file.exists()
    assert plays(lived) == [["One."], ["Two."], ["I write.", "Three."], []]
    assert shown(lived.cells[-1])[0].startswith("Undid turn 3")
    assert goes_on(lived) == ["First.", "Second."]
    assert not file.exists()


@pytest.mark.row("the cell with the undo was deleted")
@pytest.mark.parametrize("came_last", [True, False])
def test_an_undo_whose_cell_was_deleted(lived, came_last):
    lived.command("%kin live")
    undo = lived.type("%kin undo")
    assert lived.run(undo) == ""
    if not came_last:
        lived.answered("%%kin\nThird.", "Three.")
    lived.cells.remove(undo)
    assert plays(lived) == [["One."], ["Two."], ["Three."]][: len(lived.cells)]
    assert goes_on(lived) == (["First.", "Second."] if came_last else ["First.", "Third."])


@pytest.mark.row("cleared (`%kin clear`)")
def test_a_conversation_that_was_cleared(lived):
    lived.command("%kin live")
    assert lived.run(lived.type("%kin clear")) == ""
    assert plays(lived) == [["One."], ["Two."], []]
    assert goes_on(lived) == []


@pytest.mark.row("a command that had nothing to do, such as `%kin undo` above all prompts")
def test_a_command_that_had_nothing_to_do(lived):
    undo = lived.type("%kin undo", at=0)
    errors = lived.restart_and_run_all(stops=False)
    assert errors == ["There is nothing to undo: no turn has run in this conversation.", "", ""]
    lived.command("%unload_ext kin_nb")
    lived.file.unlink()
    lived.command("%load_ext kin_nb")
    assert lived.run(undo) == errors[0], "as it is live"


@pytest.mark.row("asked again (`--retry`)")
def test_an_answer_that_was_asked_again(lived):
    lived.command("%kin live")
    lived.cells[0]["source"] = "%%kin --retry\nFirst."
    assert lived.ask(lived.cells[0], "One, again.") == ""
    lived.save()
    assert lived.command("%kin save").startswith("Saved ")
    lived.open(lived.file.with_name("talk.kin.ipynb"))
    assert plays(lived) == [[], ["One, again."], ["Two."]]
    held = [raw["steps"][0]["content"] for index, raw in raw_records(lived.nb) if index == 1 and raw["type"] == "turn"]
    assert held == ["One.", "One, again."]


@pytest.mark.row("a flow, several turns in one cell")
def test_a_flow(page, model_server):
    skill = page.home / "kin" / "skills" / "mend" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(FLOW)
    for text in ("I ran them.", "<choice>no</choice>", "Mended.", "I ran them again."):
        model_server.enqueue(text, chunk=1000)
    flow = page.answered("%%kin\n/flow:mend the parser", "<choice>yes</choice>")
    live = replies(flow)
    assert len(live) > 2
    assert plays(page) == [live]


@pytest.mark.row("outputs cleared, after `%kin save`")
def test_cleared_outputs_of_a_notebook_that_was_saved(lived):
    lived.command("%kin save")
    lived.open(lived.file.with_name("talk.kin.ipynb"))
    for cell in lived.cells:
        cell["outputs"] = []
    assert plays(lived) == [[], ["One."], ["Two."]]


@pytest.mark.row("Run All stopped at a cell that failed, and the page was saved, without the outputs below")
@pytest.mark.parametrize("at", [0, 1], ids=["above all prompts", "below the first"])
def test_run_all_stopped(lived, at):
    own = lived.type("1 / 0", at=at)
    assert lived.restart_and_run_all()[-1] == "division by zero"
    assert lived.cells[-1]["outputs"] == []
    lived.save()
    own["source"] = "value = 1"
    assert [each for each in plays(lived) if each] == [["One."], ["Two."]]


def test_run_all_stopped_where_kin_nb_was_not_loaded_yet(lived):
    """What the row above says of that."""
    own, load = lived.type("1 / 0", at=0), lived.type("%load_ext kin_nb", at=1)
    lived.save()
    lived.command("%unload_ext kin_nb")
    assert lived.run_all() == ["division by zero"]
    lived.save()
    own["source"] = "value = 1"
    assert [lived.run(cell) for cell in (own, load)] == ["", ""]
    assert lived.nb["cells"][-1]["outputs"] == []
    assert "kin_recording" not in json.dumps(lived.cells)


@pytest.mark.row("outputs cleared, never saved with `%kin save`")
@pytest.mark.parametrize("known", ["by another cell's output", "by this kernel", "by the log"])
def test_cleared_outputs_of_a_notebook_that_was_never_saved(lived, monkeypatch, known):
    if known != "by the log":
        assert set(lived.run_all()) == {""}
    for cell in lived.cells:
        cell["outputs"] = []
    if known == "by this kernel":
        lived.save()
        assert set(lived.run_all()) == {""}
        assert list(map(replies, lived.cells)) == [["One."], ["Two."]]
        return
    if known == "by another cell's output":
        lived.run(lived.cells[0])  # Run All stopped below it
        assert plays(lived) == [["One."], ["Two."]]
        return
    monkeypatch.setenv("KIN_HOME", str(lived.home / "kin"))
    lived.answered("%%kin\nThird.", "Three.")
    (log, *_) = [path for path in (lived.home / "kin" / "sessions").glob("*/log.jsonl") if "Two." in path.read_text()]
    errors = lived.restart_and_run_all(stops=False)
    assert "No saved answer" in errors[0]
    assert "kin-nb save SESSION NOTEBOOK.ipynb" in errors[0]
    target = lived.file.with_name("healed.ipynb")
    SaveCommand(log.parent.name, target).run()
    lived.open(target)
    assert plays(lived)[1:3] == [["One."], ["Two."]]


@pytest.mark.row("two branches, because two people continued or files were merged")
def test_two_branches(lived, tmp_path, model_server):
    with InProcessPage(tmp_path / "another", model_server) as other:
        other.cells = copy_of(lived.cells)
        other.save()
        other.restart()
        theirs = other.answered("%%kin\nTheirs.", "Theirs.")
        other.answered("%%kin\nTheir last.", "Their last.")
        lived.answered("%%kin\nMine.", "Mine.")
        lived.cells += [copy_of(cell) | {"id": f"their-{n}"} for n, cell in enumerate(other.cells[2:])]
    assert replies(theirs) == ["Theirs."]
    assert plays(lived) == [["One."], ["Two."], ["Mine."], ["Theirs."], ["Their last."]]
    assert goes_on(lived) == ["First.", "Second.", "Theirs.", "Their last."]


@pytest.mark.row("failed or interrupted when it was recorded")
def test_an_answer_that_failed(lived, model_server):
    lived.command("%kin live")
    model_server.enqueue(status=400)
    failed = lived.type("%%kin\nThird.")
    assert lived.run(failed) != ""
    then = shown(failed)
    assert plays(lived) == [["One."], ["Two."], []]
    assert shown(failed)[0].startswith("Turn 3 has no answer\n  It is shown as it ended. To ask the model again:")
    assert shown(failed)[1] == then[0]


def edited(cell: Any) -> None:
    carried = next(each["metadata"]["kin_recording"] for each in cell["outputs"] if "kin_recording" in each["metadata"])
    carried["record"]["steps"][0]["content"] = "Other."


@pytest.mark.row("the record was edited by hand")
def test_a_record_that_was_edited_by_hand(lived, model_server):
    whole = copy_of(lived.cells)
    edited(lived.cells[1])
    errors = lived.restart_and_run_all(stops=False)
    assert all("cell 2, turn 2, step 1" in error for error in errors)
    assert len(model_server.requests) == 2
    lived.cells = whole
    assert plays(lived) == [["One."], ["Two."]]
    edited(lived.cells[1])
    lived.save()
    lived.restart()
    assert "Playback left" in lived.command("%kin live") or lived.command("%kin status")
    lived.answered("%%kin\nThird.", "Three.")
    assert prompts_sent(model_server) == ["Third."]


@pytest.mark.row("a new prompt, where no user can answer (CI, papermill)")
def test_a_new_prompt_where_no_user_can_answer(lived, model_server):
    new = lived.type("%%kin\nThird.")
    lived.save()
    lived.restart()
    errors = lived.run_all(cell_id=False)
    assert errors[:2] == ["", ""]
    assert errors[2].startswith("No saved answer: ")
    assert shown(new) == [errors[2]]
    assert len(model_server.requests) == 2


@pytest.mark.row("a new prompt, in a notebook that holds no recorded answer")
@pytest.mark.parametrize("cell_id", [True, False], ids=["a user", "CI"])
def test_a_new_prompt_in_a_notebook_without_answers(page, model_server, cell_id):
    new = page.type(FIRST)
    page.save()
    page.restart()
    model_server.enqueue("One.")
    assert page.run_all(cell_id=cell_id) == [""]
    assert replies(new) == ["One."]


def test_what_is_read_here_is_what_the_front_end_wrote(lived):
    assert [replies(cell) for cell in read_page(lived.file)["cells"]] == [["One."], ["Two."]]
