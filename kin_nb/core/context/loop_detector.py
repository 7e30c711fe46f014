"""LoopDetector: find tool calls and texts that repeat.

Three kinds of loops in calls:

* exact: the same call with the same result, again and again;
* cycle: several calls in any order, each of which was made before with the same result;
* near: calls and results that hardly differ (call_signatures.NearRepeats).

A call with a new result is progress: polling, or a test run between edits, is never a loop. Endless text is repeating_text's
subject. What happens about a loop is decided by core.loop_guard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

from kin_nb.core.context.call_signatures import (
    SIMILARITY_THRESHOLD,
    CallSignature,
    NearRepeats,
    Similarity,
    one_line,
    text_similarity,
)
from kin_nb.core.context.repeating_text import RepeatingText
from kin_nb.core.stopping import ADVICE
from kin_nb.core.text import listed

LoopKind = Literal["exact", "cycle", "near", "text"]
LoopAction = Literal["remind", "ask", "stop"]

ACTIONS: tuple[LoopAction, ...] = ("remind", "remind", "ask", "stop")
SAME_AT = (3, 5, 8, 12)
"""The number of rounds for each action, when results are the same."""
NEAR_AT = (5, 10, 20, 30)
"""The same for near repeats. Higher, because similarity can be wrong."""
_MAX_ROUND = 8
"""Calls in a round at most: in a longer cycle each eight calls count as a round."""
_MAX_KEYS = 100
_MAX_COMPARED = 5
"""Calls that a new call is compared with, when near repeats are looked for."""
_MAX_NAMED = 5
_MAX_QUOTE = 80
_ADVICE = "Nothing new comes of it: use what you know, try another way, or say what you need."


@dataclass(frozen=True)
class Loop:
    """A loop, found at one of its thresholds. `message` is for the model when `action` is "remind", else for the user."""

    kind: LoopKind
    count: int
    action: LoopAction
    message: str


class Series:
    """The calls since the last new one, that one included, and the action that is due.

    `thresholds` holds one number of rounds for each of ACTIONS.
    """

    def __init__(self, thresholds: tuple[int, ...]) -> None:
        self._thresholds = thresholds
        self.clear()

    def clear(self) -> None:
        self.calls: dict[Hashable, CallSignature] = {}
        """The distinct calls, the latest last."""
        self.rounds = self._length = self._reached = 0
        self._allowed_at: int | None = None

    def allow(self) -> None:
        """Send no more reminders; ask again after as many more rounds as before the first question."""
        if self.rounds > 1:
            self._allowed_at = self.rounds

    def add(self, identity: Hashable, call: CallSignature, *, is_new: bool) -> LoopAction | None:
        """Add a call. Returns the action for a threshold that is reached now. After the last one, every call returns "stop"."""
        if is_new:
            self.clear()
        self.calls.pop(identity, None)
        self.calls[identity] = call
        self._length += 1
        before, self.rounds = self.rounds, -(-self._length // min(len(self.calls), _MAX_ROUND))
        if self.rounds < before:  # another call joined: it is another loop
            self._reached, self._allowed_at = self._passed(), None
            return None
        if self._allowed_at is not None:
            if self.rounds - self._allowed_at < self._thresholds[ACTIONS.index("ask")]:
                return None
            self._allowed_at = self.rounds
            return "ask"
        before, self._reached = self._reached, self._passed()
        is_due = self._reached > before or self._reached == len(ACTIONS)
        return ACTIONS[self._reached - 1] if is_due else None

    def _passed(self) -> int:
        return sum(threshold <= self.rounds for threshold in self._thresholds)


class LoopDetector:
    """Find the loops of one conversation. The memory is bounded: a hundred keys, five calls, the end of a reply.

    `similarity` returns how similar two texts are, from 0 to 1; it runs in the agent's event loop, so it must be quick. From
    `threshold` on two results are near repeats. Raises ValueError when the threshold is not above 0 and at most 1.
    """

    def __init__(self, similarity: Similarity = text_similarity, *, threshold: float = SIMILARITY_THRESHOLD) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"The similarity threshold must be above 0 and at most 1, got {threshold}.")
        self._near_repeats = NearRepeats(similarity, threshold)
        self._same, self._near = Series(SAME_AT), Series(NEAR_AT)
        self._text = RepeatingText()
        self.forget()

    def forget(self) -> None:
        """Start again, when a repeated call may be right: a new prompt, an undo, a rewind, a compaction."""
        self._same.clear()
        self._near.clear()
        self._text.clear()
        self._call_ids: dict[bytes, str] = {}
        """The key of each known call, and the id of the call that was made last."""
        self._latest: deque[tuple[int, CallSignature]] = deque(maxlen=_MAX_COMPARED)
        self._groups = 0

    def forget_results(self, call_ids: Iterable[str]) -> None:
        """Treat these calls as new when they are made again: the model no longer sees their results."""
        gone = set(call_ids)
        self._call_ids = {key: call_id for key, call_id in self._call_ids.items() if call_id not in gone}

    def allow(self) -> None:
        """Let the present loop continue, because the user wants it. The user is asked again after as many more rounds."""
        self._same.allow()
        self._near.allow()

    def observe(self, name: str, arguments: str, result: str, *, ok: bool, call_id: str = "") -> Loop | None:
        """Look at a finished call. To be called in call order.

        `arguments`: JSON text. `ok`: whether the call succeeded (for a command: with exit status 0).
        """
        call = CallSignature(name, arguments, result, ok=ok)
        same = self._same.add(call.key, call, is_new=self._remember(call, call_id))
        group, is_new = self._group(call)
        near = self._near.add(group, call, is_new=is_new)
        if self._same.rounds > 1:
            kind: LoopKind = "exact" if len(self._same.calls) == 1 else "cycle"
            return _loop(kind, self._same.rounds, same, describe_same(self._same)) if same else None
        return _loop("near", self._near.rounds, near, describe_near(self._near)) if near else None

    def observe_text(self, delta: str) -> Loop | None:
        """Look at the next piece of a reply, or of its reasoning, while it streams. Endless text is always a reason to stop."""
        found = self._text.feed(delta)
        if found is None:
            return None
        quote = one_line(found.piece, _MAX_QUOTE)
        return _loop("text", found.count, "stop", f"the same words {found.count} times in one reply: “{quote}”")

    def end_reply(self) -> None:
        """Look at the next text as another reply."""
        self._text.clear()

    def _remember(self, call: CallSignature, call_id: str) -> bool:
        """Whether the call is new, or has a new result."""
        is_new = self._call_ids.pop(call.key, None) is None
        self._call_ids[call.key] = call_id
        if len(self._call_ids) > _MAX_KEYS:
            del self._call_ids[next(iter(self._call_ids))]
        return is_new

    def _group(self, call: CallSignature) -> tuple[int, bool]:
        """The group of near repeats that the call belongs to, and whether it is a new group."""
        matches = (group for group, other in reversed(self._latest) if self._near_repeats.match(other, call))
        group = next(matches, None)
        is_new = group is None
        if group is None:
            self._groups += 1
            group = self._groups
        self._latest.append((group, call))
        return group, is_new


def describe_same(series: Series) -> str:
    calls, rounds = len(series.calls), series.rounds
    what = (
        f"the same call {rounds} times in a row"
        if calls == 1
        else f"the same {calls} calls over and over, {rounds} rounds"
    )
    return f"{what}, each with the same result: {_labels(series)}"


def describe_near(series: Series) -> str:
    calls, rounds = len(series.calls), series.rounds
    what = f"{rounds} calls in a row" if calls == 1 else f"{calls} calls over and over, {rounds} rounds,"
    return f"{what} that hardly differ, with hardly different results; the last: {_labels(series)}"


def _labels(series: Series) -> str:
    labels = [call.label for call in series.calls.values()]
    return listed([*labels[-_MAX_NAMED:], *labels[:-_MAX_NAMED]], _MAX_NAMED)


def loop_message(action: LoopAction, description: str) -> str:
    """The sentence for the model (remind) or the user (ask, stop). It must also do when the question is not answered."""
    if action == "remind":
        return f"You repeat yourself: {description}. {_ADVICE}"
    message = f"the model repeats itself: {description}"
    return message if action == "ask" else f"{message}; {ADVICE['loop']}"


def _loop(kind: LoopKind, count: int, action: LoopAction, description: str) -> Loop:
    return Loop(kind, count, action, loop_message(action, description))
