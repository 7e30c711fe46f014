"""Which cell of a saved notebook holds which records, and what it shows of them: what is saved plays, cell by cell."""

from __future__ import annotations

import random
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.core.records import ClearRecord, CompactRecord, RecordedCompaction, SessionRecord, UndoRecord
from kin_nb.render import render_record
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import command_key, conversation_key, flow_key
from kin_nb.replay.format.notebook_codec import read_recording, read_saved
from kin_nb.replay.playback.player import Playback
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.prompt_cells import describe_unanswered, unanswered_cells
from tests.table import each_row
from tests.unit.replay.sessions import carried_of, recording, turn, undo


def asking(prompt: str, cell_id: str, *options: str) -> Any:
    return new_code_cell(f"{' '.join(('%%kin', *options))}\n{prompt}", id=cell_id)


def held(nb: Any) -> dict[str, list[str]]:
    """By the id of each cell that holds records, their ids without the zeros before them."""
    raw = {cell["id"]: cell["metadata"].get("kin", {}).get("records", []) for cell in nb["cells"]}
    return {name: [record["id"].lstrip("0") for record in records] for name, records in raw.items() if records}


def played(nb: Any, *, ids: bool = True) -> list[tuple[str, list[str]]]:
    """(source, what it shows) of each cell that speaks to the agent, run from the top; each plays what was saved in it."""
    players: dict[str, Playback] = {}
    book, found = Book.collect(nb), []
    for cell in nb["cells"]:
        key = conversation_key(nb, cell)
        if key is None:
            continue
        name = "helper" if "--session helper" in cell["source"] else ""
        player = players.setdefault(name, Playback(book, name))
        records, by_another = player.play(key, cell["id"] if ids else None)
        assert not by_another
        outputs = [output for record in records for output in render_record(record, name)]
        assert cell["outputs"] == [new_output("display_data", each.data, metadata=each.metadata) for each in outputs]
        found.append((cell["source"].removeprefix("%%kin\n"), [record.id.lstrip("0") for record in records]))
    return found


def is_fixed(nb: Any) -> bool:
    """Whether it is the same to the byte when it is saved again."""
    again = session_notebook(read_recording(nb), source_nb=nb)
    return nbformat.v4.writes(again) == nbformat.v4.writes(nb)


TALK = recording(
    turn(1, "Hello.", cell_id="a"),
    turn(2, "List.", cell_id="b"),
    turn(3, "Write.", cell_id="c"),
    turn(4, "Hello.", cell_id="d"),
)


@pytest.mark.parametrize("ids", [True, False])
def test_cells_stay_where_they_were_put_and_each_shows_its_own_answer(ids):
    cells = [
        asking("List.", "b" if ids else "1"),
        new_markdown_cell("# Note", id="note"),
        asking("Hello.", "a" if ids else "2"),
        asking("Write.", "c" if ids else "3"),
        new_code_cell("x = 1", id="own"),
        asking("Hello.", "d" if ids else "4"),
    ]
    nb = session_notebook(TALK, source_nb=new_notebook(cells=cells))
    assert [cell["id"] for cell in nb["cells"][1:]] == [cell["id"] for cell in cells]
    assert played(nb) == [("List.", ["2"]), ("Hello.", ["1"]), ("Write.", ["3"]), ("Hello.", ["4"])]
    assert played(nb, ids=False) == played(nb)
    assert is_fixed(nb)


RETRIES = {
    "asked again": (turn(1, "Go.", cell_id="a"), turn(2, "Go.", cell_id="a"), turn(3, "Go.", cell_id="a")),
    "failed and run again": (turn(1, "Go.", cell_id="a", outcome="error"), turn(3, "Go.", cell_id="a")),
    "interrupted and run again": (turn(1, "Go.", cell_id="a", outcome="interrupted"), turn(3, "Go.", cell_id="a")),
    "edited and run again": (turn(1, "Go", cell_id="a"), turn(3, "Go.", cell_id="a")),
}


@pytest.mark.parametrize("retry", RETRIES)
def test_a_cell_that_was_retried_holds_all_its_records_and_shows_the_last(retry):
    talk = recording(*RETRIES[retry], turn(4, "On.", cell_id="b"))
    nb = session_notebook(talk, source_nb=new_notebook(cells=[asking("Go.", "a"), asking("On.", "b")]))
    assert held(nb) == {"a": [each.id.lstrip("0") for each in RETRIES[retry]], "b": ["4"]}
    assert played(nb) == [("Go.", ["3"]), ("On.", ["4"])]
    assert read_recording(nb) == talk
    assert is_fixed(nb)


def test_what_a_deleted_copy_of_a_cell_was_answered_does_not_go_to_the_cell_that_shows_its_own():
    """Pasted into a page that was open, the copy was asked again; then it was deleted, and the page shows the first answer."""
    first = turn(1, "Go.", cell_id="a")
    talk = recording(first, turn(2, "Go.", cell_id="copy"))
    cell = asking("Go.", "a")
    cell["outputs"] = [new_output("display_data", metadata=carried_of(talk, first))]
    nb = session_notebook(talk, source_nb=new_notebook(cells=[cell]))
    assert held(nb) == {"a": ["1"], "copy": ["2"]}
    assert played(nb) == [("Go.", ["1"]), ("Go.", ["2"])]
    assert is_fixed(nb)


def test_an_undo_that_made_room_for_a_new_answer_is_held_and_shown_with_it():
    first = turn(1, "Go.", cell_id="a")
    room = undo(first, key=first.key, cell_id="a")
    again = turn(3, "Go.", cell_id="a")
    nb = session_notebook(recording(first, room, again), source_nb=new_notebook(cells=[asking("Go.", "a")]))
    assert held(nb) == {"a": ["1", room.id.lstrip("0"), "3"]}
    assert played(nb) == [("Go.", [room.id.lstrip("0"), "3"])]
    assert is_fixed(nb)


def test_a_flow_stays_together():
    flow = turn(1, "Flow.", cell_id="a")
    follower = turn(2, "step two", cell_id="a").model_copy(update={"key": flow_key(flow.key, 1)})
    talk = recording(flow, follower, turn(3, "List.", cell_id="b"), turn(4, "Flow.", cell_id="c"))
    cells = [asking("List.", "b"), asking("Flow.", "a"), new_markdown_cell("x", id="x"), asking("Flow.", "c")]
    nb = session_notebook(talk, source_nb=new_notebook(cells=cells))
    assert played(nb) == [("List.", ["3"]), ("Flow.", ["1", "2"]), ("Flow.", ["4"])]
    assert played(session_notebook(talk)) == [("Flow.", ["1", "2"]), ("List.", ["3"]), ("Flow.", ["4"])]
    assert is_fixed(nb)


FIRST = turn(1, "Hello.", cell_id="a")
UNDONE = undo(FIRST, cell_id="m")
MOVES: dict[str, SessionRecord] = {
    "undo": UNDONE,
    "redo": UndoRecord(
        **{
            **UNDONE.model_dump(),
            "type": "redo",
            "key": command_key("redo"),
            "head": FIRST.head,
            "ancestors": (FIRST.id,),
        }
    ),
    "clear": ClearRecord(id="e" * 16, parent=FIRST.head, seq=2, key=command_key("clear"), cell_id="m"),
    "compact": CompactRecord(
        id="e" * 16,
        parent=FIRST.head,
        seq=2,
        ancestors=(FIRST.id,),
        key=command_key("compact"),
        cell_id="m",
        compaction=RecordedCompaction(summary="They said hello.", summarised=2),
    ),
}


@each_row("where", ["its cell", "a cell whose output carries it", "no cell"])
@each_row("move", MOVES)
def test_a_cell_that_moved_the_conversation_keeps_its_record_and_its_card(move, where):
    record = MOVES[move]
    talk = recording(FIRST, record, turn(3, "On.", cell_id="b"))
    outputs = [new_output("display_data", {"text/plain": "x"}, metadata=carried_of(talk, record))]
    carries = where != "its cell"
    cell = new_code_cell(f"%kin {move}", id="other" if carries else "m", outputs=outputs if carries else [])
    cells = [asking("Hello.", "a"), *([] if where == "no cell" else [cell]), asking("On.", "b")]
    nb = session_notebook(talk, source_nb=new_notebook(cells=cells))
    name = {"its cell": "m", "no cell": "m"}.get(where, "other")
    assert held(nb)[name] == [record.id.lstrip("0")]
    source, shown = next(each for each in played(nb) if each[0].startswith("%kin"))
    assert source == (f"%kin {move}" if where != "no cell" or move != "undo" else "%kin undo 1")
    assert shown == [record.id.lstrip("0")]
    assert read_recording(nb).records == (FIRST, *talk.records[1:])
    assert is_fixed(nb)


def test_a_command_of_a_named_session_gets_a_cell_that_names_it():
    first = turn(1, "Hello.", options="--session helper")
    talk = recording(first, undo(first))
    talk = Recording(talk.meta, talk.records, session_names=dict.fromkeys(talk.shas, "helper"))
    nb = session_notebook(talk)
    assert [cell["source"] for cell in nb["cells"][1:]] == [
        "%%kin --session helper\nHello.",
        "%kin --session helper undo 1",
    ]
    assert read_recording(nb) == talk
    assert len(played(nb)) == 2
    assert is_fixed(nb)


@pytest.mark.parametrize("where", ["made it", "carries it", "holds it"])
def test_a_prompt_that_was_edited_since_it_ran_gets_its_text_back(where):
    talk = recording(turn(1, "Hello.", cell_id="a" if where == "made it" else "gone"))
    cell = asking("Hello, but better.", "a")
    if where == "carries it":
        cell["outputs"] = [new_output("display_data", {"text/plain": "x"}, metadata=carried_of(talk, talk.turns[0]))]
    if where == "holds it":
        saved = session_notebook(talk, source_nb=new_notebook(cells=[asking("Hello.", "a")]))
        cell["metadata"] = saved["cells"][1]["metadata"]
    nb = session_notebook(talk, source_nb=new_notebook(cells=[cell]))
    assert played(nb) == [("Hello.", ["1"])]
    assert len(nb["cells"]) == 2
    assert is_fixed(nb)


def test_a_prompt_gets_back_the_session_that_it_spoke_to_as_far_as_that_is_known():
    own = turn(1, "Hello.", cell_id="a")
    helper = turn(2, "Check it.", cell_id="b", options="--session helper", parent=None)
    talk = Recording(recording().meta, (own, helper), session_names={helper.id: "helper"})
    cells = [asking("Hello.", "a", "--session helper"), asking("Check it.", "b")]
    nb = session_notebook(talk, source_nb=new_notebook(cells=cells))
    assert [cell["source"] for cell in nb["cells"][1:]] == ["%%kin\nHello.", "%%kin --session helper\nCheck it."]
    assert read_recording(nb) == talk
    assert is_fixed(nb)


def test_the_text_that_a_cell_with_several_answers_gets_back_is_that_of_the_last():
    turns = (turn(1, "One.", cell_id="a"), turn(2, "Two.", cell_id="a"))
    nb = session_notebook(recording(*turns), source_nb=new_notebook(cells=[asking("Three.", "a")]))
    assert played(nb) == [("Two.", ["2"])]
    assert held(nb) == {"a": ["1", "2"]}


def test_a_cell_edited_back_to_an_earlier_text_shows_the_answer_to_that():
    turns = (turn(1, "One.", cell_id="a"), turn(2, "Two.", cell_id="a"))
    nb = session_notebook(recording(*turns), source_nb=new_notebook(cells=[asking("One.", "a")]))
    assert played(nb) == [("One.", ["1"])]
    assert held(nb) == {"a": ["1", "2"]}


@pytest.mark.parametrize("second", ["Do it well.", "Do it."])
def test_turns_of_one_cell_that_is_not_there_have_a_cell_each(second):
    nb = session_notebook(recording(turn(1, "Do it.", cell_id="a"), turn(2, second, cell_id="a")))
    assert played(nb) == [("Do it.", ["1"]), (second, ["2"])]
    assert played(nb, ids=False) == played(nb)
    assert is_fixed(nb)


def test_a_cell_that_was_copied_with_its_record_holds_it_too():
    once = session_notebook(recording(turn(1, "Hello.", cell_id="a")))
    copy = {**once["cells"][1], "id": "copy"}
    once["cells"].append(type(once)(copy))
    nb = session_notebook(read_recording(once), source_nb=once)
    assert held(nb) == {"a": ["1"], "copy": ["1"]}
    assert played(nb) == [("Hello.", ["1"]), ("Hello.", ["1"])]
    assert is_fixed(nb)


def test_prompts_and_commands_that_were_never_run_are_named():
    asked = [asking("Hello.", "a"), asking("List.", "b"), asking("Write.", "c"), asking("Hello.", "d")]
    drafts = [asking("List.", "again"), new_code_cell("%kin undo", id="u"), asking("New.", "new")]
    nb = session_notebook(TALK, source_nb=new_notebook(cells=[*asked, *drafts]))
    assert [cell["id"] for cell in nb["cells"]][1:] == ["a", "b", "c", "d", "again", "u", "new"]
    found = read_saved(nb).records_by_cell
    assert unanswered_cells(nb, found) == [6, 7, 8]
    assert describe_unanswered(nb, found) == (
        "Cells 6, 7, 8 have no saved answer, so a replay stops there. Run or remove them, and save again."
    )
    whole = session_notebook(TALK, source_nb=new_notebook(cells=asked))
    assert describe_unanswered(whole, read_saved(whole).records_by_cell) == ""


@each_row("seed", range(15), long=range(15, 150))
def test_whatever_was_run_what_is_saved_holds_all_of_it_plays_and_is_a_fixed_point(seed):
    dice = random.Random(seed)
    records: list[SessionRecord] = []
    for seq in range(1, dice.randrange(2, 10)):
        before = records[-1] if records else None
        if before is not None and before.type == "turn" and dice.random() < 0.25:
            command = dice.choice(["undo", "clear"])
            if command == "undo":
                records.append(undo(before, seq=seq, cell_id=dice.choice("uv")))
            else:
                key = command_key(command)
                made = ClearRecord(id=f"{seq:015x}c", parent=before.head, seq=seq, key=key, cell_id="w")
                records.append(made)
        else:
            records.append(turn(seq, dice.choice("ABC"), cell_id=dice.choice("pqrst")))
    talk = recording(*records)
    last = {each.cell_id: each for each in records}
    cells = []
    for cell_id, record in last.items():
        source = f"%%kin\n{record.prompt}" if record.type == "turn" else f"%kin {record.type}"
        if dice.random() < 0.2:
            source = "%%kin\nedited since"
        if dice.random() < 0.8:
            cells.append(new_code_cell(source, id=cell_id if dice.random() < 0.8 else f"lost-{cell_id}"))
    dice.shuffle(cells)
    cells = [cell for cell in cells if not cell["source"].endswith("edited since") or not cell["id"].startswith("lost")]
    nb = session_notebook(talk, source_nb=new_notebook(cells=cells))
    back = read_saved(nb)
    assert [record.id for record in back.recording.records] == [record.id for record in talk.records]
    assert unanswered_cells(nb, back.records_by_cell) == []
    assert played(nb)
    assert is_fixed(nb)
