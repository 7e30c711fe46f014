"""LoopDetector: find calls and replies that repeat: exact repeats, cycles, near repeats, endless text.

A call that is made again and has another result is polling, never a loop. Nor is a test run between edits, whatever it
says: edits are different calls. In this order: the thresholds, repeats in a sequence of calls, the messages, the detector. What
is done about a loop is decided by core.loop_guard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kin_nb.core.context.call_signatures import (
    SIMILARITY_THRESHOLD,
    CallSignature,
    PollingDetector,
    ShingleSimilarity,
    Similarity,
    alike_by,
    quoted,
)
from kin_nb.core.context.chanting import Chant, Chanting
from kin_nb.core.stopping import ADVICE

LoopKind = Literal["exact", "cycle", "near", "text"]
LoopAction = Literal["remind", "ask", "stop"]


@dataclass(frozen=True)
class Loop:
    """`count`: how often it came. `message`: what the model is told (remind), or the person (ask, stop)."""

    kind: LoopKind
    count: int
    action: LoopAction
    message: str


@dataclass(frozen=True)
class Thresholds:
    """Counts at which the model is reminded (twice), the person asked, the turn stopped."""

    remind: tuple[int, int]
    ask: int
    stop: int


SAME = Thresholds(remind=(3, 5), ask=8, stop=12)
"""One call, the same result. Counted: calls."""
CYCLE = Thresholds(remind=(3, 5), ask=7, stop=10)
"""Two to five calls over and over, the same results. Counted: rounds."""
NOTHING_NEW = Thresholds(remind=(15, 25), ask=40, stop=60)
"""Calls in any order, each of which came before with the same result. Counted: calls."""
NEAR = Thresholds(remind=(5, 10), ask=20, stop=30)
"""Calls that hardly differ, results that hardly differ. Counted: calls, or rounds. Patient: likeness may deceive."""
REPLY = NEAR
"""The same long words before each call. Counted: replies."""


class Escalation:
    """What has been said of one loop while it lasts: each threshold once, and "stop" whenever it goes on after that."""

    def __init__(self, steps: Thresholds) -> None:
        self._ask = steps.ask
        self._due: list[tuple[int, LoopAction]] = [
            *((count, "remind") for count in steps.remind),
            (steps.ask, "ask"),
            (steps.stop, "stop"),
        ]
        self.reset()

    def reset(self) -> None:
        """The loop was broken."""
        self._count = self._said = 0
        self._wanted_at: int | None = None

    def go_on(self) -> None:
        """The person wants it: no more reminders, and asked again only after as many more repeats."""
        if self._count:
            self._wanted_at = self._count

    def at(self, count: int) -> LoopAction | None:
        """What is due now that it came `count` times. Counts never shrink until `reset`."""
        self._count = count
        if self._wanted_at is not None:
            if count - self._wanted_at < self._ask:
                return None
            self._wanted_at = count
            return "ask"
        if self._said == len(self._due):
            return "stop"
        action: LoopAction | None = None
        while self._said < len(self._due) and self._due[self._said][0] <= count:
            action = self._due[self._said][1]
            self._said += 1
        return action


LONGEST = 5
_WORST = ("remind", "ask", "stop")


@dataclass(frozen=True)
class Repeat:
    """The last `period` calls came `count` times over."""

    action: LoopAction
    period: int
    count: int


@dataclass
class _Run:
    period: int
    said: Escalation
    length: int = field(default=0)
    """How many calls up to now are like the one `period` before them."""

    @property
    def count(self) -> int:
        return self.length // self.period + 1

    def add(self, *, alike: bool) -> None:
        self.length = self.length + 1 if alike else 0
        if not alike:
            self.said.reset()


class Repeats:
    """Remembers five calls. A period counts by whole rounds, and only when no shorter one explains it (A,A,A,A is no A,A)."""

    def __init__(
        self, alike: Callable[[CallSignature, CallSignature], bool], single: Thresholds, cycle: Thresholds = CYCLE
    ) -> None:
        self._alike, self._single, self._cycle = alike, single, cycle
        self.forget()

    def forget(self) -> None:
        self._last: deque[CallSignature] = deque(maxlen=LONGEST)
        steps = [self._single, *[self._cycle] * (LONGEST - 1)]
        self._runs = [_Run(period, Escalation(each)) for period, each in enumerate(steps, 1)]

    def go_on(self) -> None:
        for run in self._runs:
            run.said.go_on()

    @property
    def last(self) -> list[CallSignature]:
        """The latest calls, at most five, oldest first."""
        return list(self._last)

    @property
    def lasts(self) -> bool:
        """Whether the latest call belongs to a second round of something, or a later one."""
        return any(run.count > 1 for run in self._runs)

    def add(self, call: CallSignature) -> Repeat | None:
        """What is due with this call: of several the gravest."""
        found: list[Repeat] = []
        for run in self._runs:
            run.add(alike=run.period <= len(self._last) and self._alike(self._last[-run.period], call))
            if run.count > 1 and self._is_prime(run.period):
                action = run.said.at(run.count)
                found += [Repeat(action, run.period, run.count)] if action else []
        self._last.append(call)
        return max(found, key=lambda repeat: _WORST.index(repeat.action), default=None)

    def _is_prime(self, period: int) -> bool:
        """Whether the last `period` calls are no rounds of a shorter cycle themselves."""
        parts = (run for run in self._runs[: period - 1] if period % run.period == 0)
        return all(run.length < period - run.period for run in parts)


_ADVICE = "Nothing new comes of it: use what you know, try another way, or say what you need."
_LONGEST_QUOTE = 80


def describe_same(period: int, count: int, calls: Sequence[CallSignature]) -> str:
    if period == 1:
        return f"the same call {count} times in a row, each with the same result: {_names(calls)}"
    return f"the same {period} calls {count} times over, each with the same result: {_names(calls)}"


def describe_near(period: int, count: int, calls: Sequence[CallSignature]) -> str:
    if period == 1:
        return f"{count} calls in a row that hardly differ, with hardly different results; the last: {_names(calls)}"
    return f"{period} calls that hardly differ {count} times over, with hardly different results: {_names(calls)}"


def describe_nothing_new(count: int, call: CallSignature) -> str:
    return f"{count} calls in a row that had all been made before, with the same results; the last: {call.shown}"


def describe_chant(found: Chant) -> str:
    return f"the same words {found.count} times in one reply: “{quoted(found.piece, _LONGEST_QUOTE)}”"


def describe_reply(count: int, content: str) -> str:
    return f"the same words in {count} replies in a row: “{quoted(content, _LONGEST_QUOTE)}”"


def loop_message(action: LoopAction, what: str) -> str:
    """A reminder is for the model. The others are for the person: what is said when asking must do without an answer too."""
    if action == "remind":
        return f"You repeat yourself: {what}. {_ADVICE}"
    said = f"the model repeats itself: {what}"
    return said if action == "ask" else f"{said}; {ADVICE['loop']}"


def _names(calls: Sequence[CallSignature]) -> str:
    return ", ".join(call.shown for call in calls)


_REMEMBERED_CALLS = 100
"""Calls whose repetition is recognised, in whatever order."""
_LEAST_REPLY = 200
"""Characters of a reply; a shorter one ("Now the next file.") may well come again and again."""


class LoopDetector:
    """One conversation's. Bounded: the last calls with their results, a hundred keys, two thousand characters of a reply.

    `similarity` measures how alike two texts are, by default without a service; from `threshold` on, above 0 and at most 1,
    two results are near repeats. Raises ValueError for another threshold.
    """

    def __init__(self, similarity: Similarity | None = None, *, threshold: float = SIMILARITY_THRESHOLD) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"The threshold of similarity must be above 0 and at most 1, got {threshold}.")
        self._same = Repeats(lambda before, now: before.key == now.key, SAME)
        self._near = Repeats(alike_by(similarity or ShingleSimilarity(), threshold), NEAR, NEAR)
        self._polling = PollingDetector()
        self._stale, self._said_again = Escalation(NOTHING_NEW), Escalation(REPLY)
        self._text = Chanting()
        self.forget()

    def forget(self) -> None:
        """Nothing was seen yet. After the person spoke, an undo, a D-Mail, a compaction: to repeat may be right then."""
        self._same.forget()
        self._near.forget()
        self._polling.forget()
        self._stale.reset()
        self._said_again.reset()
        self._text.reset()
        self._keys: dict[bytes, str] = {}
        self._old_calls = self._replies = 0
        self._reply = ""

    def forget_results(self, call_ids: Iterable[str]) -> None:
        """The model does not see these any more: to make such a call again brings it something. A run of calls goes on."""
        gone = set(call_ids)
        self._keys = {key: call_id for key, call_id in self._keys.items() if call_id not in gone}

    def go_on(self) -> None:
        """The person was asked, and wants it: asked again after as many more repeats, and no reminder until then."""
        for each in (self._same, self._near, self._stale, self._said_again):
            each.go_on()

    def observe(self, name: str, arguments: str, result: str, *, ok: bool, call_id: str = "") -> Loop | None:
        """After each call, in call order. `arguments`: JSON text; `ok`: it did not fail (a command: it left with 0)."""
        call = CallSignature(name, arguments, result, ok=ok)
        call.counts = self._polling.is_polling(call)
        same, near, stale = self._same.add(call), self._near.add(call), self._nothing_new(call, call_id)
        if same is not None:
            what = describe_same(same.period, same.count, self._same.last[-same.period :])
            return _loop("exact" if same.period == 1 else "cycle", same.count, same.action, what)
        if self._same.lasts:  # spoken of at its own thresholds, not at those of what it is as well
            return None
        if near is not None:
            what = describe_near(near.period, near.count, self._near.last[-near.period :])
            return _loop("near", near.count, near.action, what)
        if stale is not None:
            return _loop("cycle", self._old_calls, stale, describe_nothing_new(self._old_calls, call))
        return None

    def observe_text(self, delta: str) -> Loop | None:
        """While a reply streams, its reasoning too: endless text is stopped."""
        chant = self._text.feed(delta)
        return _loop("text", chant.count, "stop", describe_chant(chant)) if chant else None

    def observe_reply(self, content: str) -> Loop | None:
        """When a reply has ended, be it calls alone: the same long words before every step are a loop too."""
        self._text.reset()
        words = " ".join(content.split())
        if not words:
            return None
        self._replies = self._replies + 1 if words == self._reply else 1
        self._reply = words if len(words) >= _LEAST_REPLY else ""
        if self._replies == 1:
            self._said_again.reset()
            return None
        action = self._said_again.at(self._replies)
        return _loop("text", self._replies, action, describe_reply(self._replies, content)) if action else None

    def _nothing_new(self, call: CallSignature, call_id: str) -> LoopAction | None:
        """Whether it is time to say that call after call has been made before: cycles too long or uneven for Repeats."""
        known = call.key in self._keys
        self._keys.pop(call.key, None)
        self._keys[call.key] = call_id
        if len(self._keys) > _REMEMBERED_CALLS:
            del self._keys[next(iter(self._keys))]
        self._old_calls = self._old_calls + 1 if known else 0
        if not known:
            self._stale.reset()
            return None
        return self._stale.at(self._old_calls)


def _loop(kind: LoopKind, count: int, action: LoopAction, what: str) -> Loop:
    return Loop(kind, count, action, loop_message(action, what))
