"""Playback: a cell shows what was recorded. Nothing runs, nothing is written, no model is called."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.render import Output, render_notice, render_turn, render_undo
from kin_nb.replay.cells.matching import (
    State,
    Undoing,
    all_played,
    is_answer,
    match_turn,
    match_undo,
    own_turn,
    played,
    turn_in_place,
    turns_of_cell,
)
from kin_nb.replay.errors import NotRecorded
from kin_nb.replay.format.stood import Run
from kin_nb.replay.playback.edited import not_recorded
from kin_nb.replay.recording import Recording


class Player:
    """One notebook's playback: which turns its cells have played so far."""

    def __init__(self, recording: Recording, cells: Collection[str] = ()) -> None:
        """`cells`: the ids of the notebook's, where they are known."""
        self.recording = recording
        self._cells = frozenset(cells)
        self._recorded = len(recording.turns)
        self._state = State()

    def know(self, recording: Recording, shown: Mapping[str, int], replaced: Collection[int]) -> None:
        """`recording`: with more than it had. `shown`, `replaced`: as State has them.

        What only the log has of cells that were deleted waits for nobody either.
        """
        self.recording = recording
        gone = {turn.turn for turn in recording.turns[self._recorded :] if self._is_gone(turn)}
        self._state = replace(self._state, shown=shown, replaced=gone.union(replaced))

    def turn(self, key: str, cell_id: str | None, body: str = "") -> tuple[TurnRecord, tuple[int, ...]]:
        """The turn that this cell plays now, and the numbers of turns passed over to get there.

        Raises NotRecorded, which shows how `body` differs from the turn in its place, or AmbiguousTurn; then nothing has
        moved.
        """
        try:
            match = match_turn(self.recording, key, cell_id, self._state)
        except NotRecorded as error:
            position, known = turn_in_place(self.recording, cell_id, self._state)
            if position is None:
                if error.after_last:
                    raise
                raise NotRecorded(
                    "This notebook is in playback and calls no model, and cells below have answers that were not played. "
                    "Run those first; or `%kin live`, then run this cell."
                ) from None
            turn = self.recording.turns[position]
            message = not_recorded(turn, body, known=known, gone=self._is_gone(turn))
            raise NotRecorded(message, after_last=error.after_last and not known, turn=turn) from None
        self._state = match.state
        return self.recording.turns[match.position], tuple(filter(self._is_missed, match.not_run))

    def _is_missed(self, number: int) -> bool:
        """Not one that was taken back and that no cell shows: it was asked again, and has no other place to be played."""
        position = self._at(number)
        taken_back = position >= self._recorded and position not in self.recording.standing
        return not taken_back or number in self._state.shown.values()

    def _is_gone(self, turn: TurnRecord) -> bool:
        """Whether its cell was deleted, as ids tell: those of other turns are there."""
        if not turn.cell_id or turn.cell_id in self._cells:
            return False
        return any(each.cell_id in self._cells for each in self.recording.turns)

    def how_to_ask(self, turn: TurnRecord, cell_id: str | None, session: str) -> list[Output]:
        """What a person is told who may have meant to ask anew with the cell that plays `turn`, of the session of that name.

        It was typed for that, since another cell plays the turn; or it is run again, since that had no answer.
        """
        if not all_played(self.recording, self._state):
            return []
        position = self._at(turn.turn)
        cells = [cell for cell, n in self._state.by_cell.items() if n == position]
        if cell_id in cells[1:]:
            return [_ask_notice(f"This is turn {turn.turn} again", "Another cell asked it.", session)]
        last = self.run_of(turn)[-1]
        if not is_answer(last):
            return [_ask_notice(f"This is turn {last.turn}, which has no answer", "It is shown as it ended.", session)]
        return []

    def knows(self, key: str, cell_id: str | None) -> TurnRecord | None:
        """The turn that this cell plays now, where that is sure by more than its text."""
        match = own_turn(self.recording, key, cell_id, self._state)
        return None if match is None else self.recording.turns[match.position]

    def last(self, key: str, cell_id: str | None) -> tuple[TurnRecord, tuple[int, ...]]:
        """As `turn`, where the recording, which holds more than it did, ends with what this cell plays.

        What was taken back before that is not missed.
        """
        recording = self.recording
        position = recording.asked_by[key][-1]
        match = played(recording, position, cell_id, self._state, moves=True)
        self._state = match.state
        standing = {recording.turns[n].turn for n in recording.standing}
        return recording.turns[position], tuple(number for number in match.not_run if number in standing)

    def play(self, key: str, cell_id: str | None) -> list[Output]:
        """The outputs of this cell, in order: a notice first when turns were passed over, then the turn's own.

        Raises as `turn`.
        """
        turn, not_run = self.turn(key, cell_id)
        return [*passed_over(turn, not_run), *(output for each in self.run_of(turn) for output in render_turn(each))]

    def run_of(self, turn: TurnRecord) -> Sequence[TurnRecord]:
        """What a cell plays whose first turn this is: a flow has several."""
        return turns_of_cell(self.recording.turns, self._at(turn.turn))

    def _at(self, number: int) -> int:
        """The position of that turn."""
        return bisect_left(self.recording.turns, number, key=lambda each: each.turn)

    def undo(self, asked: Undoing, cell_id: str | None) -> tuple[int, UndoRecord]:
        """The undo or redo that this cell plays now, and its number from 1. Raises NotRecorded; then nothing has moved."""
        position, self._state = match_undo(self.recording, asked, cell_id, self._state)
        return position + 1, self.recording.undos[position]

    def undid(self, undo: UndoRecord, cell_id: str | None) -> bool:
        """This cell shows `undo`, and no other does. False where the recording does not have it."""
        undos = self.recording.undos
        same = (n for n, each in enumerate(undos) if (each.type, each.turns) == (undo.type, undo.turns))
        position = next((n for n in same if n not in self._state.undone), None)
        position = self._state.undone_by_cell.get(cell_id, position) if cell_id else position
        if position is not None:
            by_cell = {**self._state.undone_by_cell, cell_id: position} if cell_id else self._state.undone_by_cell
            self._state = replace(self._state, undone=self._state.undone | {position}, undone_by_cell=by_cell)
        return position is not None


def passed_over(turn: TurnRecord, not_run: tuple[int, ...], lost: Sequence[Run] = ()) -> list[Output]:
    """The notice that a cell shows before `turn` when earlier turns were not run, or are `lost`; empty when all were."""
    said = []
    if lost:
        runs = [str(first) if first == last else f"{first} to {last}" for first, last in lost]
        one = len(lost) == 1 and lost[0][0] == lost[0][1]
        said.append(
            f"Turn {runs[0]} is not in this notebook any more: its cell was run again, or deleted."
            if one
            else f"Turns {', '.join(runs)} are not in this notebook any more: their cells were run again, or deleted."
        )
    if not_run:
        were = f"Turn {not_run[0]} was" if len(not_run) == 1 else f"Turns {', '.join(map(str, not_run))} were"
        said.append(f"{were} not run before it.")
    return [render_notice(f"This is turn {turn.turn}", said)] if said else []


def undo_card(undo: UndoRecord, session: str = "") -> Output:
    """The card of an undo or redo: live, saved and played."""
    return render_undo(undo, session)


def _ask_notice(fact: str, why: str, session: str) -> Output:
    live = f"%kin --session {session} live" if session else "%kin live"
    return render_notice(fact, [f"{why} To ask it anew: `{live}`, then run this cell again."])


def playback_notice(recording: Recording) -> Output:
    """What `%kin replay` shows in playback, and what save writes as that cell's output: the same bytes."""
    count = len(recording.turns)
    lines = [
        f"{count} {'turn' if count == 1 else 'turns'} recorded"
        + (f" with {recording.meta.model}" if recording.meta.model else "")
        + (f" by kin_nb {recording.meta.kin_nb}." if recording.meta.kin_nb else "."),
        "This notebook is in playback: no model is called, no tool runs, no file is written.",
        "To run the tools for real, in a copy of the workspace: kin-nb replay --tools. To ask a model again: %kin live",
    ]
    if recording.other_types:
        lines.append(f"Written by a later kin_nb, kept but not played: {', '.join(recording.other_types)}.")
    return render_notice(f"Session {recording.session}", lines)
