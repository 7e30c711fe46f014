"""Checkpoints: states of the conversation that can be gone back to (seed 001), and which turns lead to each of them.

One is marked before each prompt and before each step, and one when a turn has ended. The marks of the last turns are
kept, those of steps for the running turn alone: older ones cannot be gone back to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kin_nb.core.context.state import HistoryState
from kin_nb.core.session.records import END, Place, TurnRecord

KEPT_TURNS = 50
KEPT_STEPS = 200


class NoSuchCheckpointError(Exception):
    """There is no such checkpoint, or it is too old to be kept."""


@dataclass(frozen=True)
class Checkpoint:
    """`id` counts from 0 over the session, prompts and steps alike. `tokens`: the context's size as it was counted last."""

    id: int
    place: Place
    state: HistoryState
    tokens: int = 0


class Checkpoints:
    """Marked in the order of what happens, also when a stored session is taken up again."""

    def __init__(self) -> None:
        self._marks: dict[Place, Checkpoint] = {}
        self._steps: list[Place] = []  # of the newest turn, oldest first
        self._next = 0

    def mark(self, place: Place, state: HistoryState, tokens: int = 0) -> Checkpoint:
        checkpoint = self._mark(place, state, tokens)
        self._next += place.step != END  # an end is no checkpoint of its own: nobody names it
        return checkpoint

    def pass_by(self, place: Place) -> None:
        """Instead of `mark`, for a place that is not gone back to: it counts, and what is old goes."""
        self._prune(place)
        self._next += place.step != END

    def mark_unsure(self, place: Place, state: HistoryState, tokens: int = 0) -> None:
        """Of an old record, which does not say whether that step had begun: no id is counted for it."""
        self._mark(place, state, tokens)

    def at(self, place: Place) -> Checkpoint:
        """Raises NoSuchCheckpointError."""
        try:
            return self._marks[place]
        except KeyError:
            raise NoSuchCheckpointError(
                f"That is too far back: the conversation is kept for the last {KEPT_TURNS} turns."
            ) from None

    def by_id(self, checkpoint_id: int) -> Checkpoint:
        """Raises NoSuchCheckpointError, listing those that there are, and saying so of one that is not kept any more."""
        known = [mark for mark in self._marks.values() if mark.place.step != END]
        for mark in known:
            if mark.id == checkpoint_id:
                return mark
        ids = ", ".join(str(mark.id) for mark in known)
        if 0 <= checkpoint_id < self._next:
            raise NoSuchCheckpointError(
                f"Checkpoint {checkpoint_id} is not kept any more: those before steps are kept of the last turn, those "
                f"before prompts of the last {KEPT_TURNS} turns. Kept: {ids}."
            )
        raise NoSuchCheckpointError(f"There is no checkpoint {checkpoint_id}. Kept: {ids or 'none yet'}.")

    def of_steps(self, turn: int) -> list[Checkpoint]:
        """Those before a step of that turn, oldest first."""
        return [self._marks[place] for place in self._steps if place.turn == turn and place in self._marks]

    def _mark(self, place: Place, state: HistoryState, tokens: int) -> Checkpoint:
        self._prune(place)
        checkpoint = self._marks[place] = Checkpoint(self._next, place, state, tokens)
        return checkpoint

    def _prune(self, newest: Place) -> None:
        if newest.step == 0:
            old = [place for place in self._marks if place.turn <= newest.turn - KEPT_TURNS]
            for place in (*self._steps, *old):
                self._marks.pop(place, None)
            self._steps.clear()
        elif newest.step > 0:
            self._steps.append(newest)
            if len(self._steps) > KEPT_STEPS:
                self._marks.pop(self._steps.pop(0), None)


def gone_back_to(turns: Sequence[TurnRecord]) -> Callable[[Place], bool]:
    """Whether one of `turns` goes on from a place in them, or what comes after them may: of a long session nearly none."""
    origins = {turn.origin for turn in turns}
    origins |= {
        Place(turn=turn.turn, step=mail.step)
        for turn in turns
        for mail in (*(step.dmail for step in turn.steps), turn.dmail)
        if mail is not None
    }
    last = turns[-1].turn if turns else 0

    def is_gone_back_to(place: Place) -> bool:
        kept = place.turn == last or (place.turn > last - KEPT_TURNS and place.step in {0, END})
        return kept or place in origins

    return is_gone_back_to


def branch(turns: Sequence[TurnRecord], tip: Place | None) -> list[TurnRecord]:
    """The turns that lead to `tip`, oldest first: those that were undone on the way are not among them.

    The last may be cut short: a tip before one of its steps leaves the steps until there. `tip` None: after the last turn.
    """
    found: list[TurnRecord] = []
    for turn, step in led_to(turns, tip):
        if step > 0:
            found.append(turn.model_copy(update={"steps": turn.steps[: step - 1]}))
        elif step == END:
            found.append(turn)
    return found[::-1]


def led_to(turns: Sequence[TurnRecord], tip: Place | None) -> Iterator[tuple[TurnRecord, int]]:
    """What leads to `tip`, the last first: each turn, and until which step; 0 where the next goes on from before it."""
    by_number = {turn.turn: n for n, turn in enumerate(turns)}
    place = tip or end_of(turns)
    while place is not None and place.turn in by_number:
        position = by_number[place.turn]
        turn = turns[position]
        yield turn, place.step
        place = turn.origin or (Place(turn=turns[position - 1].turn, step=END) if position else None)


def end_of(turns: Sequence[TurnRecord]) -> Place | None:
    return Place(turn=turns[-1].turn, step=END) if turns else None


def delivered(message: str) -> str:
    """A D-Mail as the model finds it at the checkpoint that it went back to."""
    return (
        "[kin_nb: a D-Mail from you, later in this turn. You went on from here and came back; the files are as you left "
        f"them then. Nothing of it was shown to you but this:]\n\n{message}"
    )
