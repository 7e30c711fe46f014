"""Which turn a cell plays: the documented order, as a table of cells run one after another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kin_nb.core.session.records import Place, UndoRecord
from kin_nb.replay.cells.matching import State, all_played, cell_key, match_turn
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from tests.unit.replay.sessions import recording, turn

# turns in order by prompt; then cells as prompt[:id], and what each plays: a turn's number, "-n" after it for every
# turn passed over, "?" for not recorded, "!" for ambiguous
TABLE = {
    "in order": ("ABC", "A B C", "1 2 3"),
    "two equal prompts in order": ("ABA", "A B A", "1 2 3"),
    "run again, with no id": ("ABC", "A A B B C", "1 1 2 2 3"),
    "run again, one of several": ("ABA", "A B A A", "1 2 3 3"),
    "run again later, by its id": ("ABA", "A:x B:y A:z A:x B:y C:w", "1 2 3 1 2 ?"),
    "its id's turn comes before the next turn": ("AAB", "A:x A:x A:y B:z", "1 1 2 3"),
    "an id whose text was edited plays by text": ("AB", "A:x B:x", "1 2"),
    "a jump says what was passed over": ("ABCD", "A D", "1 4-2-3"),
    "what was played is not passed over": ("ABCD", "A B A C D", "1 2 1 3 4"),
    "backwards, then on": ("ABC", "C:z A:x B:y", "3-1-2 1 2"),
    "several elsewhere": ("ABAC", "C A", "4-1-2-3 !"),
    "the next of several": ("AABA", "A B A", "1 3-2 4"),
    "not recorded": ("A", "A X", "1 ?"),
    "nothing moves after a failure": ("AB", "X A X B", "? 1 ? 2"),
    "an empty session": ("", "A", "?"),
}


@pytest.mark.parametrize("row", TABLE)
def test_which_turn_a_cell_plays(row):
    prompts, cells, expected = TABLE[row]
    assert plays(prompts, cells, State()) == expected


def plays(prompts: str, cells: str, state: State) -> str:
    session = recording(*(turn(n, prompt) for n, prompt in enumerate(prompts, 1)))
    played = []
    for cell in cells.split():
        prompt, _, cell_id = cell.partition(":")
        try:
            match = match_turn(session, cell_key(prompt, ""), cell_id or None, state)
        except NotRecorded:
            played.append("?")
        except AmbiguousTurn:
            played.append("!")
        else:
            state = match.state
            played.append("-".join(map(str, [session.turns[match.position].turn, *match.not_run])))
    return " ".join(played)


HELD = {
    "what its outputs hold, of the same text": ("AA", {"x": 2, "y": 1}, "A:x A:y", "2-1 1"),
    "where the text alone would not tell": ("ABAC", {"x": 1, "y": 2, "z": 4}, "A:x B:y C:z A:new A:x", "1 2 4-3 ! 1"),
    "a copy": ("AB", {"x": 1, "y": 2, "copy": 1}, "A:x B:y A:copy", "1 2 1"),
    "only while that is its text": ("AB", {"x": 1, "y": 2}, "B:x", "2-1"),
    "what nobody knows": ("AB", {"x": 7}, "A:x", "1"),
}
"""As TABLE, with the turn that the outputs of a cell hold."""


@pytest.mark.parametrize("row", HELD)
def test_a_cell_plays_what_its_outputs_hold(row):
    prompts, shown, cells, expected = HELD[row]
    assert plays(prompts, cells, State(shown=shown)) == expected


def test_what_cells_show_below_is_played_first_also_where_it_was_taken_back():
    undone = UndoRecord(at=3, turns=(2, 3), to=Place(turn=2))
    session = replace(recording(turn(1, "A"), turn(2, "B"), turn(3, "C")), undos=(undone,))
    seen = []
    state = State(shown={"a": 1, "b": 2, "c": 3})
    for cell in ("A:a", "B:b", "C:c"):
        prompt, cell_id = cell.split(":")
        state = match_turn(session, cell_key(prompt, ""), cell_id, state).state
        seen.append(all_played(session, state))
    assert seen == [False, False, True]
    assert all_played(session, match_turn(session, cell_key("C", ""), "c", State(shown=state.shown)).state), (
        "skipped above"
    )


def test_an_ambiguous_cell_lists_the_turns_that_it_could_be():
    session = recording(turn(1, "A"), turn(2, "B"), turn(4, "A"), turn(5, "C"))
    with pytest.raises(AmbiguousTurn, match="turns 1, 4 have this cell's text"):
        match_turn(session, cell_key("A", ""), None, State(next=4))


def test_not_recorded_says_what_to_do_and_whether_all_was_played():
    session = recording(turn(1, "A"), turn(2, "B"))
    for state, after_last in ((State(), False), (State(next=1), False), (State(next=2), True)):
        with pytest.raises(NotRecorded, match="calls no model; `%kin live` to ask") as caught:
            match_turn(session, cell_key("X", ""), None, state)
        assert caught.value.after_last is after_last


SAME = {
    "line ends": "a\r\nb",
    "blanks at line ends": "a  \nb\t",
    "blank lines at the end": "a\nb\n\n \n",
    "an nbval mark": "a\n# NBVAL_IGNORE_OUTPUT\nb",
}


@pytest.mark.parametrize("what", SAME)
def test_what_editors_change_is_no_part_of_the_key(what):
    assert cell_key(SAME[what], "") == cell_key("a\nb", "")


def test_decomposed_characters_are_the_same_text():
    assert cell_key("e\u0301", "") == cell_key("\u00e9", "")


def test_words_indents_and_options_are_part_of_the_key():
    keys = {cell_key("a\nb", ""), cell_key("a\n b", ""), cell_key("a b", ""), cell_key("a\nb", "--mode plan")}
    assert len(keys) == 4
    assert cell_key("a", " --mode   plan ") == cell_key("a", "--mode plan")
    assert cell_key("a", "b") != cell_key("b", "a")
