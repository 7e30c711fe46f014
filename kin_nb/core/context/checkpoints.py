"""Checkpoints: states of the conversation that the user or the model can go back to, and which turns lead to each of them.

One is marked before each prompt and before each step, and one when a turn has ended. The marks of the last turns are
kept, those of steps for the running turn alone: older ones cannot be gone back to.
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
    """The messages themselves, not copies: a mark costs a pointer for each of them. The rest is History's own business."""

    messages: tuple[LLMMessage, ...]
    hidden: tuple[Any, ...]


KEPT_TURNS = 50
KEPT_STEPS = 200


class NoSuchCheckpointError(Exception):
    """There is no such checkpoint, or it is too old to be kept."""


@dataclass(frozen=True)
class Checkpoint:
    """`id` counts from 0 over the session, prompts and steps alike. `tokens`: the context's size as it was counted last."""

    id: int
    place: Ref
    state: HistoryState
    tokens: int = 0


class Checkpoints:
    """Marked in the order of what happens, also when a stored session is resumed."""

    def __init__(self) -> None:
        self._marks: dict[Ref, Checkpoint] = {}
        self._begun: list[str] = []
        """The ids of the last turns that began, oldest first: those whose marks are kept."""
        self._steps: list[Ref] = []
        """Of the newest turn, oldest first."""
        self._next = 0

    def mark(self, place: Ref, state: HistoryState, tokens: int = 0) -> Checkpoint:
        """Keep `state`. BEFORE_PROMPT of a turn that is new here begins it, and drops what is too old."""
        checkpoint = self._mark(place, state, tokens)
        self._next += place.step != END  # an end has no id of its own: no user can name it
        return checkpoint

    def skip(self, place: Ref) -> None:
        """Count a place like `mark`, without keeping a state for it."""
        self._prune(place)
        self._next += place.step != END

    def mark_uncounted(self, place: Ref, state: HistoryState, tokens: int = 0) -> None:
        """Keep `state` without an id, for an old record that does not say whether that step had begun."""
        self._mark(place, state, tokens)

    def at(self, place: Ref) -> Checkpoint:
        """Raises NoSuchCheckpointError."""
        try:
            return self._marks[place]
        except KeyError:
            raise NoSuchCheckpointError(
                f"That is too far back: the conversation is kept for the last {KEPT_TURNS} turns."
            ) from None

    def by_id(self, checkpoint_id: int) -> Checkpoint:
        """Raises NoSuchCheckpointError, which lists those that there are, and says of an old one that it is not kept."""
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

    def of_steps(self, turn_id: str) -> list[Checkpoint]:
        """Those before a step of that turn, oldest first."""
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
    """Return a test for the places in `records` that one of them, or a later undo, may go back to: few of a long session."""
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
    """A D-Mail as the model finds it at the checkpoint that it went back to."""
    return (
        "[kin_nb: a D-Mail from you, later in this turn. You went on from here and came back; the files are as you left "
        f"them then. Nothing of it was shown to you but this:]\n\n{message}"
    )
