"""Which turn or undo a cell plays, as a table: what was recorded, the cells that are run, and what each of them shows."""

from __future__ import annotations

import random
import re

import pytest

from kin_nb.core.session.records import END, Place, RecordedStep, TurnRecord, UndoRecord
from kin_nb.replay.cells.matching import Undoing, cell_key, following_key
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.playback.player import Player
from kin_nb.replay.recording import Recording, SessionMeta
from tests.unit.replay.sessions import SESSION

# Recorded, in order: `A` a turn with that prompt; `A:x` in cell x; `A*3` a flow of three turns; `A/o` with option --o;
# `u2` an undo of two turns; `r` a redo.
# Cells, in the order in which they are run: `A`, `A:x` in the cell with id x, `A/o` with the option, `u2`, `r`.
# Each shows: `2` turn 2; `2..4` three turns of a flow; `4-2-3` turn 4, and that 2 and 3 were not run before it; `u1` the
# first undo or redo; `!` several could be meant; `?` not recorded; `?2` not recorded, and turn 2 comes next; `?=2` not
# recorded, and turn 2 was recorded in this cell.
TABLE = {
    # in order
    "one turn": ("A", "A", "1"),
    "in order": ("A B C", "A B C", "1 2 3"),
    "in order, with ids as recorded": ("A:a B:b C:c", "A:a B:b C:c", "1 2 3"),
    "in order, ids lost": ("A:a B:b C:c", "A B C", "1 2 3"),
    "in order, ids renumbered": ("A:a B:b C:c", "A:1 B:2 C:3", "1 2 3"),
    "in order, ids exchanged": ("A:a B:b C:c", "A:c B:a C:b", "1 2 3"),
    "in order, one id for all": ("A:a B:b C:c", "A:x B:x C:x", "1 2 3"),
    "an empty session": ("", "A", "?"),
    "after the last": ("A", "A B", "1 ?"),
    "nothing recorded has the text": ("A B", "X", "?1"),
    # the same text several times
    "the same text twice": ("A B A", "A B A", "1 2 3"),
    "the same text twice, with ids": ("A:x B A:y", "A:x B A:y", "1 2 3"),
    "the same text twice in a row": ("A A", "A A", "1 2"),
    "the same text three times": ("A A A", "A A A", "1 2 3"),
    "the same text twice, the second first": ("A B A", "B A A", "2-1 3 3"),
    "the same text everywhere, once more": ("A A", "A A A", "1 2 2"),
    "the same text everywhere, once more, by ids": ("A A", "A:x A:y A:x A:y", "1 2 1 2"),
    "the same text, a new cell after the last": ("A A", "A:x A:y A:z", "1 2 2"),
    "the same text, far away": ("A B A C", "C A", "4-1-2-3 !"),
    "the same text, the first skipped": ("B A B C A", "B C", "1 4-2-3"),
    "the same text, neither at hand": ("A B C A D", "C A", "3-1-2 4"),
    "the same text, both behind": ("A A B C", "A A B C A", "1 2 3 4 !"),
    "the same text, both behind, a known id": ("A A B C", "A:x A:y B C A:x", "1 2 3 4 1"),
    # run again
    "run again": ("A B C", "A A B B C C", "1 1 2 2 3 3"),
    "run again three times": ("A B", "A A A B", "1 1 1 2"),
    "run again later": ("A B C", "A B C A", "1 2 3 1"),
    "run again later, by its id": ("A B C", "A:x B:y C:z A:x", "1 2 3 1"),
    "run again, then on": ("A B C", "A B A C", "1 2 1 3"),
    "run all twice": ("A B C", "A B C A B C", "1 2 3 1 2 3"),
    "run all twice, by ids": ("A B C", "A:x B:y C:z A:x B:y C:z", "1 2 3 1 2 3"),
    "run all twice, of two alike": ("A B A", "A:x B:y A:z A:x B:y A:z", "1 2 3 1 2 3"),
    "its id's turn comes before the next": ("A A B", "A:x A:x A:y B:z", "1 1 2 3"),
    "a kernel that was restarted": ("A B C", "A:x B:y", "1 2"),
    # out of order
    "reversed": ("A B C", "C B A", "3-1-2 2 1"),
    "two exchanged": ("A B C", "B A C", "2-1 1 3"),
    "the last first": ("A B C D", "D A B C", "4-1-2-3 1 2 3"),
    "a jump says what was passed over": ("A B C D", "A D", "1 4-2-3"),
    "a jump, and back for the rest": ("A B C D", "A D B C", "1 4-2-3 2 3"),
    "what was played is not passed over": ("A B C D", "A B A C D", "1 2 1 3 4"),
    "a jump over what was played": ("A B C D E", "C A E", "3-1-2 1 5-2-4"),
    "asked again where it stood": ("A:x B:y A:x C:z", "A:x B:y C:z A:x", "3-1-2 2 4 3"),
    # cells gone
    "the first deleted": ("A B C", "B C", "2-1 3"),
    "one deleted": ("A B C", "A C", "1 3-2"),
    "two deleted": ("A B C D", "A D", "1 4-2-3"),
    "all but the last deleted": ("A B C", "C", "3-1-2"),
    "the last deleted": ("A B C", "A B", "1 2"),
    "one of two alike deleted": ("A B A", "A B", "1 2"),
    "the first of two alike deleted": ("A B A", "B A", "2-1 3"),
    # cells added
    "a pasted copy below": ("A B", "A:x A:y B:z", "1 1 2"),
    "a pasted copy at the end": ("A B", "A:x B:y A:z", "1 2 1"),
    "a pasted copy of one of two alike, at the end": ("A A B C", "A:p A:q B:r C:s A:t", "1 2 3 4 !"),
    "a pasted copy with its id": ("A B", "A:x A:x B:y", "1 1 2"),
    "a new cell between": ("A B", "A X B", "1 ?2 2"),
    "a new cell first": ("A B", "X A B", "?1 1 2"),
    "a new cell after all": ("A B", "A B X", "1 2 ?"),
    "nothing moves after a failure": ("A B", "X A X B", "?1 1 ?2 2"),
    # cells edited
    "an edited cell": ("A:x B:y", "A:x X:y", "1 ?=2"),
    "an edited cell, its id lost": ("A:x B:y", "A X", "1 ?2"),
    "an edited cell that was played here": ("A B", "A:x X:x B:y", "1 ?=1 2"),
    "an edited cell, after all were played": ("A:x B:y", "A:x B:y X:x", "1 2 ?=1"),
    "edited and put back": ("A:x B:y", "X:x A:x B:y", "?=1 1 2"),
    "edited to the text of another": ("A:x B:y C:z", "A:x A:y C:z", "1 1 3-2"),
    "two cells that exchanged their texts": ("A:x B:y", "B:x A:y", "2-1 1"),
    "a cell that was edited live, and asked twice": ("A:x B:x C:y", "B:x C:y", "2-1 3"),
    "a cell that was edited live, and is again": ("A:x B:x C:y", "X:x", "?=2"),
    "a prompt split in two": ("AB:x C:y", "A:x B:new C:y", "?=1 ?1 2-1"),
    "two prompts joined": ("A:x B:y C:z", "AB:x C:z", "?=1 3-1-2"),
    "another option": ("A/o B", "A B", "?1 2-1"),
    "an option as recorded": ("A/o A B", "A/o A B", "1 2 3"),
    "an option taken away, of two": ("A/o A B", "A A B", "2-1 2 3"),
    # flows: a cell that makes several turns
    "a flow": ("A*3 B", "A B", "1..3 4"),
    "a flow run again": ("A*3 B", "A A B", "1..3 1..3 4"),
    "a flow run again later, by its id": ("A*3 B", "A:x B:y A:x", "1..3 4 1..3"),
    "a flow passed over": ("A B*2 C", "A C", "1 4-2-3"),
    "two flows alike": ("A*2 B A*3", "A B A", "1..2 3 4..6"),
    "a flow and a prompt of its text": ("A*2 A", "A A", "1..2 3"),
    "an edited flow": ("A:x*3 B:y", "X:x B:y", "?=1 4-1-2-3"),
    # undo and redo
    "an undo": ("A u1 B", "A u1 B", "1 u1 2"),
    "an undo given back": ("A u1 r B", "A u1 r B", "1 u1 u2 2"),
    "undo, redo, undo": ("A u1 r u1 B", "A u1 r u1 B", "1 u1 u2 u3 2"),
    "an undo run again": ("A u1 B", "A u1 u1 B", "1 u1 u1 2"),
    "an undo of two": ("A B u2 C", "A B u2 C", "1 2 u1 3"),
    "an undo of two, cut to one": ("A B u2 C", "A B u1 C", "1 2 ? 3"),
    "an undo, its cell deleted": ("A u1 B", "A B", "1 2"),
    "an undo before its time": ("A B u1 C", "A u1 B u1 C", "1 ? 2 u1 3"),
    "an undo after its time": ("A u1 B", "A B u1", "1 2 ?"),
    "an undo that was never recorded": ("A B", "A u1 B", "1 ? 2"),
    "a redo that was never recorded": ("A u1 B", "A u1 r B", "1 u1 ? 2"),
    "a redo before its undo": ("A u1 r B", "A r u1 r B", "1 ? u1 u2 2"),
    "an undo after all": ("A u1", "A u1 B", "1 u1 ?"),
    "asked again after an undo": ("A:x u1 A:y B", "A:x u1 A:y B", "1 u1 2 3"),
    "the same undo at two places": ("A u1 B u1 C", "A u1 B u1 C", "1 u1 2 u2 3"),
    "an undo run again later, by its id": ("A u1 B u1 C", "A u1:p B u1:q u1:p C", "1 u1 2 u2 u1 3"),
    "asked again after an undo, in the same cell": ("A:x u1 A:x B", "A:x u1 A:x", "1 u1 1"),
}
_CELL = re.compile(
    r"(?P<undo>[ur](?P<turns>\d*)|(?P<prompt>[A-Z]+))(?:/(?P<option>\w))?(?::(?P<id>\w+))?(?:\*(?P<n>\d))?"
)
_REPLY = (RecordedStep(content="Yes."),)


def recorded(words: str) -> Recording:
    turns: list[TurnRecord] = []
    undos: list[UndoRecord] = []
    origin = None
    for word in words.split():
        found = _CELL.fullmatch(word)
        if found["undo"][0] in "ur":
            kind, count = {"u": "undo", "r": "redo"}[word[0]], int(found["turns"] or 1)
            numbers = tuple(turn.turn for turn in turns[-count:])
            origin = Place(turn=numbers[0]) if kind == "undo" else Place(turn=numbers[-1], step=END)
            undos.append(UndoRecord(type=kind, at=len(turns), turns=numbers, to=origin))
            continue
        key = cell_key(found["prompt"], f"--{found['option']}" if found["option"] else "")
        for number in range(int(found["n"] or 1)):
            fields = {"key": following_key(key, number) if number else key, "cell_id": found["id"], "outcome": "done"}
            turns.append(TurnRecord(turn=len(turns) + 1, prompt=found["prompt"], steps=_REPLY, origin=origin, **fields))
            origin = None
    return Recording(SESSION, tuple(turns), SessionMeta(session=SESSION), undos=tuple(undos))


def run(player: Player, word: str) -> str:
    """What a cell shows, in the notation of the table."""
    cell = _CELL.fullmatch(word)
    try:
        if cell["undo"][0] in "ur":
            asked = Undoing("redo") if word[0] == "r" else Undoing("undo", int(cell["turns"] or 1))
            return f"u{player.undo(asked, cell['id'])[0]}"
        options = f"--{cell['option']}" if cell["option"] else ""
        first, passed = player.turn(cell_key(cell["prompt"], options), cell["id"], cell["prompt"])
    except AmbiguousTurn:
        return "!"
    except NotRecorded as error:
        if error.turn is None:
            return "?"
        by_id = f"turn {error.turn.turn} was recorded in this cell" in str(error)
        return f"?{'=' if by_id else ''}{error.turn.turn}"
    last = player.run_of(first)[-1].turn
    shown = str(first.turn) if last == first.turn else f"{first.turn}..{last}"
    return "-".join([shown, *map(str, passed)])


@pytest.mark.parametrize("row", TABLE)
def test_what_each_cell_plays(row):
    before, cells, expected = TABLE[row]
    player = Player(recorded(before))
    assert " ".join(run(player, word) for word in cells.split()) == expected


def test_the_table_is_a_table():
    assert len(TABLE) >= 60


@pytest.mark.parametrize("seed", [*range(60), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(60, 200))])
def test_no_cell_ever_plays_a_turn_of_another_text_and_whatever_was_run_the_notebook_still_plays_from_the_top(seed):
    dice = random.Random(seed)
    words = [dice.choice(["A", "B", "C", "A*2", "D/o", "u1"]) for _ in range(dice.randrange(1, 9))]
    words = ["A", *words] if words[0] == "u1" else words
    recording = recorded(" ".join(f"{word}:{n}" if word.isalpha() else word for n, word in enumerate(words)))
    player = Player(recording)
    for _ in range(30):
        prompt, options = dice.choice("ABCDX"), dice.choice(["", "", "--o"])
        key, cell_id = cell_key(prompt, options), dice.choice([None, "0", "1", "2", "new"])
        state = player._state
        alike = [each.key for each in recording.turns].count(key)
        try:
            turn, passed = player.turn(key, cell_id, prompt)
        except (NotRecorded, AmbiguousTurn) as error:
            failed = type(error)
        else:
            failed = None
        if failed:
            assert player._state == state, "nothing moves"
            assert failed is (AmbiguousTurn if alike > 1 else NotRecorded)
            assert alike != 1
            continue
        assert turn.key == key
        assert turn.prompt == prompt
        assert not {each.turn for each in player.run_of(turn)} & set(passed)
    fresh = Player(recording)
    shown = [run(fresh, word) for word in words]
    assert not [each for each in shown if each[0] in "?!" or "-" in each]
