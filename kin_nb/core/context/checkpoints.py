"""Checkpoints: states of the conversation to which the user or the model can return.

One is kept before each prompt and each step, and one at the end of a turn. Those of the last 50 turns are kept; those of
steps only for the newest turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kin_nb.core.records import BEFORE_PROMPT, END, Ref, Sent, TurnRecord

if TYPE_CHECKING:
    from kin_nb.core.messages import LLMMessage


@dataclass(frozen=True)
class HistoryState:
    """The messages themselves, not copies: a checkpoint costs one pointer per message. `hidden`: private to History."""

    messages: tuple[LLMMessage, ...]
    hidden: tuple[Any, ...]


KEPT_TURNS = 50
KEPT_STEPS = 200


class NoSuchCheckpointError(Exception):
    """The checkpoint does not exist, or is no longer kept."""


@dataclass(frozen=True)
class Checkpoint:
    """`id` counts prompts and steps of the session, from 0. `tokens`: the last known size of the context."""

    id: int
    place: Ref
    state: HistoryState
    tokens: int = 0


class Checkpoints:
    """The kept checkpoints. Marked in the order of events, also when a stored session is replayed."""

    def __init__(self) -> None:
        self._marks: dict[Ref, Checkpoint] = {}
        self._begun: list[str] = []
        """Ids of the turns whose checkpoints are kept, oldest first."""
        self._steps: list[Ref] = []
        """Steps of the newest turn, oldest first."""
        self._next = 0

    def mark(self, place: Ref, state: HistoryState, tokens: int = 0) -> Checkpoint:
        """Keep `state`. The first mark of a new turn (BEFORE_PROMPT) drops checkpoints that are too old."""
        checkpoint = self._mark(place, state, tokens)
        self._next += place.step != END  # the end of a turn has no id: it cannot be named
        return checkpoint

    def skip(self, place: Ref) -> None:
        """Count a checkpoint like `mark`, without keeping its state."""
        self._prune(place)
        self._next += place.step != END

    def mark_uncounted(self, place: Ref, state: HistoryState, tokens: int = 0) -> None:
        """Keep `state` without an id, for an old record that does not say whether the step had started."""
        self._mark(place, state, tokens)

    def at(self, place: Ref) -> Checkpoint:
        """Raises NoSuchCheckpointError."""
        try:
            return self._marks[place]
        except KeyError:
            raise NoSuchCheckpointError(
                f"That turn is too old: only the last {KEPT_TURNS} turns can be undone."
            ) from None

    def by_id(self, checkpoint_id: int) -> Checkpoint:
        """Return a checkpoint. Raises NoSuchCheckpointError, which lists the kept ones."""
        known = [mark for mark in self._marks.values() if mark.place.step != END]
        for mark in known:
            if mark.id == checkpoint_id:
                return mark
        ids = ", ".join(str(mark.id) for mark in known)
        if 0 <= checkpoint_id < self._next:
            raise NoSuchCheckpointError(
                f"Checkpoint {checkpoint_id} is no longer kept: only those of the last turn's steps, and of the prompts of "
                f"the last {KEPT_TURNS} turns. Kept: {ids}."
            )
        raise NoSuchCheckpointError(f"Checkpoint {checkpoint_id} does not exist. Kept: {ids or 'none yet'}.")

    def of_steps(self, turn_id: str) -> list[Checkpoint]:
        """Return the checkpoints before the steps of that turn, oldest first."""
        return [self._marks[place] for place in self._steps if place.id == turn_id and place in self._marks]

    def _mark(self, place: Ref, state: HistoryState, tokens: int) -> Checkpoint:
        self._prune(place)
        checkpoint = self._marks[place] = Checkpoint(self._next, place, state, tokens)
        return checkpoint

    def _prune(self, newest: Ref) -> None:
        if newest.step == BEFORE_PROMPT:
            self._begun.append(newest.id)
            old = {self._begun.pop(0)} if len(self._begun) > KEPT_TURNS else set()
            for place in (*self._steps, *(each for each in self._marks if each.id in old)):
                self._marks.pop(place, None)
            self._steps.clear()
        elif newest.step > 0:
            self._steps.append(newest)
            if len(self._steps) > KEPT_STEPS:
                self._marks.pop(self._steps.pop(0), None)


def rewind_targets(records: Sequence[Sent]) -> Callable[[Ref], bool]:
    """Return a predicate: can one of `records`, or a later undo, return to this ref? True for few refs of a long session."""
    needed: set[Ref | None] = set()
    head: Ref | None = None
    for record in records:
        if record.parent != head:
            needed.add(record.parent)
        head = record.head
        if isinstance(record, TurnRecord):
            mails = filter(None, (*(step.dmail for step in record.steps), record.dmail))
            needed |= {Ref(id=record.id, step=mail.step) for mail in mails}
    turns = [record.id for record in records if isinstance(record, TurnRecord)]
    recent, last = set(turns[-KEPT_TURNS:]), turns[-1] if turns else ""

    def is_target(place: Ref) -> bool:
        kept = place.id == last or (place.id in recent and place.step in {BEFORE_PROMPT, END})
        return kept or place in needed

    return is_target


def delivered(message: str) -> str:
    """Return the message of a D-Mail at its checkpoint. The text is part of recorded fingerprints: do not change it."""
    return (
        "[kin_nb: a D-Mail from you, later in this turn. You continued from here and came back; the files are as you left "
        f"them then. Nothing of it was shown to you but this:]\n\n{message}"
    )
