"""Cells that were moved, or edited and run again, while another cell has their text: what is saved plays all the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.core.session.records import Place, UndoRecord
from kin_nb.replay.cells.matching import following_key
from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.playback.player import Player, undo_card
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.turn_order import cells_that_stop
from tests.unit.replay.sessions import recording, turn


def asking(prompt, cell_id):
    return new_code_cell(f"%%kin\n{prompt}", id=cell_id)


def played(nb):
    """(source, the number of the turn that it plays) of each prompt, run from the top; each shows what was saved."""
    recorded = read_recording(nb)
    player, twin, found = Player(recorded), Player(recorded), []
    for cell in nb["cells"]:
        undoing, key = undoes(nb, cell), asked_key(nb, cell)
        if undoing is not None:
            shown = [undo_card(player.undo(undoing, None)[1])]
            twin.undo(undoing, None)
        elif key is None:
            continue
        else:
            shown = player.play(key, None)
            found.append((cell["source"].removeprefix("%%kin\n"), twin.turn(key, None)[0].turn))
        assert cell["outputs"] == [new_output("display_data", each.data, metadata=each.metadata) for each in shown]
    return found


TALK = recording(
    turn(1, "Hello.", cell_id="a"),
    turn(2, "List.", cell_id="b"),
    turn(3, "Write.", cell_id="c"),
    turn(4, "Hello.", cell_id="d"),
)
IN_ORDER = [("Hello.", 1), ("List.", 2), ("Write.", 3), ("Hello.", 4)]


@pytest.mark.parametrize("ids", [True, False])
def test_cells_that_were_moved_stand_in_order_where_a_turn_could_not_be_told_otherwise(ids):
    cells = [
        asking("List.", "b" if ids else "1"),
        new_markdown_cell("# Note", id="note"),
        asking("Hello.", "a" if ids else "2"),
        asking("Write.", "c" if ids else "3"),
        new_code_cell("x = 1", id="own"),
        asking("Hello.", "d" if ids else "4"),
    ]
    nb = session_notebook(TALK, source_nb=new_notebook(cells=cells))
    assert played(nb) == IN_ORDER
    assert [cell["id"] for cell in nb["cells"] if cell["id"] in {"note", "own"}] == ["note", "own"]
    assert len(nb["cells"]) == 1 + len(cells)
    assert session_notebook(read_recording(nb), source_nb=nb) == nb


def test_where_each_turn_is_told_cells_stay_where_they_were_put():
    cells = [asking("List.", "b"), asking("Hello.", "a"), asking("Write.", "c")]
    nb = session_notebook(recording(*TALK.turns[:3]), source_nb=new_notebook(cells=cells))
    assert played(nb) == [("List.", 2), ("Hello.", 1), ("Write.", 3)]


def test_a_cell_that_was_edited_and_run_again_above_two_alike_becomes_two():
    turns = (turn(1, "Do it.", cell_id="a"), turn(2, "Go on.", cell_id="b"), turn(3, "Do more.", cell_id="c"))
    turns += (turn(4, "Go on.", cell_id="d"), turn(5, "Do it well.", cell_id="a"))
    cells = [asking("Do it well.", "a"), asking("Go on.", "b"), asking("Do more.", "c"), asking("Go on.", "d")]
    nb = session_notebook(recording(*turns), source_nb=new_notebook(cells=cells))
    assert played(nb) == [("Do it.", 1), ("Go on.", 2), ("Do more.", 3), ("Go on.", 4), ("Do it well.", 5)]
    assert nb["cells"][-1]["id"] == "a"


def test_a_flow_stays_together():
    flow = turn(1, "Flow.", cell_id="a")
    follower = turn(2, "step two", cell_id="a").model_copy(update={"key": following_key(flow.key, 1)})
    turns = (flow, follower, turn(3, "List.", cell_id="b"), flow.model_copy(update={"turn": 4, "cell_id": "c"}))
    cells = [asking("List.", "b"), new_markdown_cell("x", id="x"), asking("Other.", "o"), asking("Flow.", "c")]
    cells.insert(1, asking("Flow.", "a"))
    nb = session_notebook(recording(*turns, turn(5, "Other.", cell_id="o")), source_nb=new_notebook(cells=cells))
    assert played(nb) == [("Flow.", 1), ("List.", 3), ("Flow.", 4), ("Other.", 5)]


@pytest.mark.parametrize("seed", [*range(50), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(50, 150))])
def test_whatever_was_run_where_each_turn_that_a_saved_notebook_asks_is_told(seed):
    dice = random.Random(seed)
    count = dice.randrange(1, 9)
    turns = [turn(n, dice.choice("ABC"), cell_id=dice.choice("pqrstuv")) for n in range(1, count + 1)]
    talk = recording(*turns)
    if dice.random() < 0.4:
        at = dice.randrange(1, count + 1)
        undo = UndoRecord(at=at, turns=(at,), to=Place(turn=at - 1, step=99))
        talk = replace(talk, undos=(undo,))
    last = {each.cell_id: each.prompt for each in turns}
    cells = [asking(prompt, cell_id) for cell_id, prompt in last.items() if dice.random() < 0.8]
    dice.shuffle(cells)
    nb = session_notebook(talk, source_nb=new_notebook(cells=cells))
    assert cells_that_stop(nb, read_recording(nb)) == []
    assert played(nb)
    assert [each.prompt for each in read_recording(nb).turns] == [each.prompt for each in turns]
    assert talk.undos or session_notebook(read_recording(nb), source_nb=nb) == nb


def test_prompts_that_were_never_run_and_would_stop_a_replay_are_named():
    asked = [asking(prompt, cell_id) for prompt, cell_id in zip(("Hello.", "List.", "Write."), "abc", strict=True)]
    drafts = [asking("List.", "again"), asking("Hello.", "either"), asking("New.", "new")]
    nb = session_notebook(TALK, source_nb=new_notebook(cells=[*asked, asking("Hello.", "d"), *drafts]))
    assert cells_that_stop(nb, read_recording(nb)) == [7, 8]
    assert [cell["id"] for cell in nb["cells"]][1:] == ["a", "b", "c", "d", "again", "either", "new"]


def test_a_draft_of_a_text_that_was_asked_twice_moves_nothing():
    cells = [asking("Write.", "c"), asking("List.", "b"), asking("Hello.", "draft")]
    nb = session_notebook(TALK, source_nb=new_notebook(cells=[asking("Hello.", "a"), asking("Hello.", "d"), *cells]))
    assert [cell["id"] for cell in nb["cells"]][1:] == ["a", "d", "c", "b", "draft"]


def test_an_undo_whose_turn_another_cell_plays_is_done_all_the_same():
    turns = (turn(1, "Go on.", cell_id="gone"), turn(2, "Go on.", cell_id="b"))
    talk = replace(recording(*turns), undos=(UndoRecord(at=2, turns=(2,), to=Place(turn=1, step=99)),))
    nb = session_notebook(talk, source_nb=new_notebook(cells=[asking("Go on.", "b")]))
    assert played(nb) == [("Go on.", 1), ("Go on.", 2)]
    assert nb["cells"][-1]["source"] == "%kin undo 1"


@pytest.mark.parametrize("second", ["Do it well.", "Do it."])
def test_turns_of_one_cell_that_is_not_there_have_a_cell_each(second):
    talk = recording(turn(1, "Do it.", cell_id="a"), turn(2, second, cell_id="a"))
    nb = session_notebook(talk)
    assert played(nb) == [("Do it.", 1), (second, 2)]
    assert [[raw["turn"] for raw in cell["metadata"].get("kin", [])] for cell in nb["cells"]] == [[], [1], [2]]


@pytest.mark.parametrize("outcome", ["error", "interrupted"])
def test_a_prompt_that_failed_and_was_run_again_in_its_cell_shows_both(outcome):
    """Else its cell would show that it failed, and nothing the answer."""
    turns = (turn(1, "Go.", cell_id="a", outcome=outcome), turn(2, "Go.", cell_id="a"), turn(3, "On.", cell_id="b"))
    nb = session_notebook(recording(*turns), source_nb=new_notebook(cells=[asking("Go.", "a"), asking("On.", "b")]))
    assert played(nb) == [("Go.", 1), ("Go.", 2), ("On.", 3)]
    assert session_notebook(read_recording(nb), source_nb=nb) == nb
