"""Loop, and when it is spoken of: the one table of thresholds, and what has been said of a loop so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class Steps:
    """Counts at which the model is reminded (twice), the person asked, the turn stopped."""

    remind: tuple[int, int]
    ask: int
    stop: int


SAME = Steps(remind=(3, 5), ask=8, stop=12)
"""One call, the same result. Counted: calls."""
CYCLE = Steps(remind=(3, 5), ask=7, stop=10)
"""Two to five calls over and over, the same results. Counted: rounds."""
NOTHING_NEW = Steps(remind=(15, 25), ask=40, stop=60)
"""Calls in any order, each of which came before with the same result. Counted: calls."""
NEAR = Steps(remind=(5, 10), ask=20, stop=30)
"""Calls that hardly differ, results that hardly differ. Counted: calls, or rounds. Patient: likeness may deceive."""
REPLY = NEAR
"""The same long words before each call. Counted: replies."""


class Escalation:
    """What has been said of one loop while it lasts: each threshold once, and "stop" whenever it goes on after that."""

    def __init__(self, steps: Steps) -> None:
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
