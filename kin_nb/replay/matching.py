"""Which turn a cell plays (docs/session-notebook.md): pure, so that every order of running cells can be written as a table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from kin_nb.core.session.records import sha256
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.recording import Recording

_NBVAL = re.compile(r"[ \t]*#+[ \t]*NBVAL_")


@dataclass(frozen=True)
class State:
    """What was played so far, as positions in `Recording.turns`: the next one, those played, and by which cell."""

    next: int = 0
    played: frozenset[int] = frozenset()
    by_cell: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Match:
    """The position to play, the numbers of turns passed over to get there, and the state after it."""

    position: int
    not_run: tuple[int, ...]
    state: State


def normal_body(body: str) -> str:
    """The prompt as it counts: NFC, LF, no blanks at line ends, no `# NBVAL_` lines, no blank lines at the end."""
    text = unicodedata.normalize("NFC", body).replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n") if not _NBVAL.match(line)]
    return "\n".join(lines).rstrip("\n")


def cell_key(body: str, options: str) -> str:
    """sha256 hex of a cell's body and the options on its `%%kin` line (blanks between options do not count)."""
    return sha256([normal_body(body), " ".join(options.split())])


def match_turn(recording: Recording, key: str, cell_id: str | None, state: State) -> Match:
    """The turn that a cell with `key` plays now, in the documented order; every candidate must have the cell's key.

    Raises NotRecorded when no turn has it, AmbiguousTurn when several have and none of them is at hand.
    """
    positions = [n for n, turn in enumerate(recording.turns) if turn.key == key]
    again = state.by_cell.get(cell_id) if cell_id else None
    if again in positions:
        return _played(recording, again, cell_id, state, moves=False)
    if state.next in positions:
        return _played(recording, state.next, cell_id, state, moves=True)
    if state.next - 1 in positions:
        return _played(recording, state.next - 1, cell_id, state, moves=False)
    if len(positions) == 1:
        return _played(recording, positions[0], cell_id, state, moves=True)
    if positions:
        numbers = ", ".join(str(recording.turns[n].turn) for n in positions)
        raise AmbiguousTurn(f"turns {numbers} have this cell's text, and none of them is next. Run the cells in order.")
    raise NotRecorded(
        "not recorded: this notebook is in playback and calls no model; `%kin live` to ask",
        after_last=state.next >= len(recording.turns),
    )


def _played(recording: Recording, position: int, cell_id: str | None, state: State, *, moves: bool) -> Match:
    passed = [n for n in range(state.next, position) if n not in state.played]
    after = State(
        next=position + 1 if moves else state.next,
        played=state.played | {position},
        by_cell={**state.by_cell, cell_id: position} if cell_id else state.by_cell,
    )
    return Match(position, tuple(recording.turns[n].turn for n in passed), after)
