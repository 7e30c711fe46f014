"""Which turn or undo a cell plays (docs/session-notebook.md): pure, so that any order of cells can be written as a table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal

from kin_nb.core.session.records import TurnRecord, UndoRecord, sha256
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.recording import Recording
from kin_nb.replay.standing import standing_turns

_NBVAL = re.compile(r"[ \t]*#+[ \t]*NBVAL_")


@dataclass(frozen=True)
class State:
    """What was played so far, as positions in `Recording.turns`: the next one, those played, and by which cell.

    `undone` and `undone_by_cell` are the same of `Recording.undos`. `shown`: by cell, in the notebook's order, the number of
    the turn that its outputs hold as the answer to its text. `replaced`: the numbers of turns that were asked again in their
    cell, which shows what took them back itself, or a later answer alone.
    """

    next: int = 0
    played: frozenset[int] = frozenset()
    by_cell: Mapping[str, int] = field(default_factory=dict)
    undone: frozenset[int] = frozenset()
    undone_by_cell: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)
    replaced: AbstractSet[int] = frozenset()


@dataclass(frozen=True)
class Match:
    """The position to play, the numbers of turns passed over to get there, and the state after it."""

    position: int
    not_run: tuple[int, ...]
    state: State


@dataclass(frozen=True)
class Undoing:
    """What a cell asks for: the last `turns` taken back, or what the last undo took given back (`turns` is 1 then)."""

    type: Literal["undo", "redo"] = "undo"
    turns: int = 1


def undoing_fits(recording: Recording, position: int, asked: Undoing) -> bool:
    """Whether the undo at `position` is what `asked` did: as many turns, or all that stood, where those were fewer."""
    undo = recording.undos[position]
    if undoing(undo) == asked or (undo.type, asked.type) != ("undo", "undo") or len(undo.turns) >= asked.turns:
        return undoing(undo) == asked
    return len(standing_turns(recording.turns[: undo.at], recording.undos[:position])) == len(undo.turns)


def undoing(undo: UndoRecord) -> Undoing:
    """What a cell must ask for to play `undo`."""
    return Undoing(undo.type, 1 if undo.type == "redo" else max(1, len(undo.turns)))


def normal_body(body: str) -> str:
    """The prompt as it counts: NFC, LF, no blanks at line ends, no `# NBVAL_` lines, no blank lines at the end."""
    text = unicodedata.normalize("NFC", body).replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n") if not _NBVAL.match(line)]
    return "\n".join(lines).rstrip("\n")


def cell_key(body: str, options: str) -> str:
    """sha256 hex of a cell's body and the options on its `%%kin` line (blanks between options do not count)."""
    return sha256([normal_body(body), " ".join(options.split())])


def following_key(key: str, number: int) -> str:
    """The key of the turn that came `number` turns after the first one of a cell whose first has `key` (a flow)."""
    return sha256([key, number])


def turns_of_cell(turns: Sequence[TurnRecord], position: int) -> Sequence[TurnRecord]:
    """The turn at `position`, and those after it that the same run of its cell made."""
    key, end = turns[position].key, position + 1
    while end < len(turns) and turns[end].key == following_key(key, end - position):
        end += 1
    return turns[position:end]


def answer_in(
    standing: Sequence[TurnRecord], key: str, cell_id: str | None, *, edited: bool = False
) -> Sequence[TurnRecord]:
    """The turns that a cell made when it ran last, of a conversation as it stands; empty when there are none.

    A cell is known by its id and its text; with `edited`, by its id whatever its text is now. Without an id nothing is
    known: two cells may say the same. A turn that failed or was interrupted is no answer: run again, it is asked again.
    """
    keys = [turn.key for turn in standing]
    found = [n for n, each in enumerate(standing) if cell_id and each.cell_id == cell_id and (edited or keys[n] == key)]
    begun = [n for n in found if not any(keys[n] == following_key(keys[m], n - m) for m in range(n))]
    if not begun:
        return ()
    answer = turns_of_cell(standing, begun[-1])
    return answer if edited or is_answer(answer[-1]) else ()


def is_answer(turn: TurnRecord) -> bool:
    """Whether it came to its end: one that failed or was interrupted is asked again when its cell is run again."""
    return turn.outcome in {"done", "stopped"}


def match_turn(recording: Recording, key: str, cell_id: str | None, state: State) -> Match:
    """The turn that a cell with `key` plays now, in the documented order; every candidate must have the cell's key.

    Raises NotRecorded when no turn has it, AmbiguousTurn when several have and none of them is at hand.
    """
    sure = own_turn(recording, key, cell_id, state)
    if sure is not None:
        return sure
    positions = recording.asked_by.get(key, ())
    own = [n for n in positions if cell_id and recording.turns[n].cell_id == cell_id]
    if own:
        return played(recording, own[-1], cell_id, state, moves=True)
    if state.next - 1 in positions:
        return played(recording, state.next - 1, cell_id, state, moves=False)
    if len(positions) == 1:
        return played(recording, positions[0], cell_id, state, moves=True)
    if positions:
        numbers = ", ".join(str(recording.turns[n].turn) for n in positions)
        raise AmbiguousTurn(f"turns {numbers} have this cell's text, and none of them is next. Run the cells in order.")
    raise NotRecorded(
        "This notebook is in playback and calls no model; `%kin live` to ask",
        after_last=all_played(recording, state),
    )


def own_turn(recording: Recording, key: str, cell_id: str | None, state: State) -> Match | None:
    """The turn that this very cell plays: the one that it played; the one that its outputs hold; of those that it asked the
    next, if that was taken back, else the last that stands; the next.

    None where only the text says which.
    """
    positions = recording.asked_by.get(key, ())
    again = state.by_cell.get(cell_id) if cell_id else None
    if again is not None and again in positions:
        return played(recording, again, cell_id, state, moves=False)
    held = state.shown.get(cell_id) if cell_id else None
    for position in (n for n in positions if recording.turns[n].turn == held):
        return played(recording, position, cell_id, state, moves=True)
    own = [n for n in positions if cell_id and recording.turns[n].cell_id == cell_id]
    shown = [n for n in own if n in recording.standing]
    shown = shown or [n for n in own[-1:] if any(recording.turns[each].turn in state.replaced for each in own)]
    undone_below = state.next in own and state.next not in shown
    if shown and not (undone_below and recording.turns[state.next].turn not in state.replaced):
        return played(recording, shown[-1], cell_id, state, moves=True)
    return played(recording, state.next, cell_id, state, moves=True) if state.next in positions else None


def all_played(recording: Recording, state: State) -> bool:
    """Whether nothing comes next: what was not played was taken back, or its cell was asked again, and no cell shows it below
    those that played.
    """
    left = (n for n in range(state.next, len(recording.turns)) if n not in state.played and n in recording.standing)
    cells = [*state.shown]
    last = max((n for n, cell_id in enumerate(cells, 1) if cell_id in state.by_cell), default=0)
    answered = {recording.turns[n].turn for n in state.played}
    return all(recording.turns[n].turn in state.replaced for n in left) and answered.issuperset(
        state.shown[cell_id] for cell_id in cells[last:]
    )


def turn_in_place(recording: Recording, cell_id: str | None, state: State) -> tuple[int | None, bool]:
    """(the position of the turn whose text this cell would have, had it not been changed; whether its id says so).

    By id: what this cell played before, else the last turn that was recorded in it. Without: the next turn, if any.
    """
    again = state.by_cell.get(cell_id) if cell_id else None
    if again is not None:
        return again, True
    first = 0
    recorded: int | None = None
    while first < len(recording.turns):
        if cell_id and recording.turns[first].cell_id == cell_id:
            recorded = first
        first += len(turns_of_cell(recording.turns, first))
    if recorded is not None:
        return recorded, True
    return (state.next if state.next < len(recording.turns) else None), False


def played(recording: Recording, position: int, cell_id: str | None, state: State, *, moves: bool) -> Match:
    """The turn at `position`, with those that the same run of its cell made; `moves`: what comes next comes after them."""
    passed = [n for n in range(state.next, position) if n not in state.played]
    end = position + len(turns_of_cell(recording.turns, position))
    after = replace(
        state,
        next=end if moves else state.next,
        played=state.played.union(range(position, end)),
        by_cell={**state.by_cell, cell_id: position} if cell_id else state.by_cell,
    )
    return Match(position, tuple(recording.turns[n].turn for n in passed), after)


def match_undo(recording: Recording, asked: Undoing, cell_id: str | None, state: State) -> tuple[int, State]:
    """The position in `Recording.undos` of what a cell plays now, and the state after it.

    What this cell played before; else what comes next where the turns stand; else what came last there (the cell was run
    again). Raises NotRecorded when none of them is what the cell asks for.
    """
    fits = {n for n in range(len(recording.undos)) if undoing_fits(recording, n, asked)}
    here = [n for n, undo in enumerate(recording.undos) if undo.at == state.next]
    again = state.undone_by_cell.get(cell_id) if cell_id else None
    due = next((n for n in here if n not in state.undone), None)
    last = None if cell_id else max(state.undone.intersection(here), default=None)  # with an id it is another cell
    for position in (again, due, last):
        if position in fits and position is not None:
            by_cell = {**state.undone_by_cell, cell_id: position} if cell_id else state.undone_by_cell
            return position, replace(state, undone=state.undone | {position}, undone_by_cell=by_cell)
    what = "redo" if asked.type == "redo" else f"undo of {asked.turns} {'turn' if asked.turns == 1 else 'turns'}"
    raise NotRecorded(
        f"No {what} comes here, and this notebook is in playback: nothing is undone. "
        "`%kin live` to go on where it ended"
    )
