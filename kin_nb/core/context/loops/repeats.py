"""Repeats: the cycles of length one to five at the end of a sequence of calls, and how often they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kin_nb.core.context.loops.call import Call
from kin_nb.core.context.loops.loop import CYCLE, Escalation, LoopAction, Steps

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

    def __init__(self, alike: Callable[[Call, Call], bool], single: Steps, cycle: Steps = CYCLE) -> None:
        self._alike, self._single, self._cycle = alike, single, cycle
        self.forget()

    def forget(self) -> None:
        self._last: deque[Call] = deque(maxlen=LONGEST)
        steps = [self._single, *[self._cycle] * (LONGEST - 1)]
        self._runs = [_Run(period, Escalation(each)) for period, each in enumerate(steps, 1)]

    def go_on(self) -> None:
        for run in self._runs:
            run.said.go_on()

    @property
    def last(self) -> list[Call]:
        """The latest calls, at most five, oldest first."""
        return list(self._last)

    @property
    def lasts(self) -> bool:
        """Whether the latest call belongs to a second round of something, or a later one."""
        return any(run.count > 1 for run in self._runs)

    def add(self, call: Call) -> Repeat | None:
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
