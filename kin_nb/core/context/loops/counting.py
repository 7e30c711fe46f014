"""Counting: a call made again whose result shows a count that moves on. That is polling, whatever else stays the same.

What varies from run to run by itself (how long it took, what time it is) is noise in a result; a countdown, or how long
something has lasted, is news. They look alike, so it is how they move that tells: one way, by whole seconds or days.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice, pairwise

from kin_nb.core.context.loops.call import VOLATILE, Call, vary_only

_REMEMBERED = 5
"""Different calls that take turns: longer cycles are no near repeats."""
_WINDOW = 5
"""Results of one call that are looked at: the first reminder of a near repeat comes with so many."""
_MOVES = 2
"""Of them, how many must differ from the one before: a poll may see a count twice."""
_MOST = 200
"""Times and durations in one result that vary; more are a report of what was measured."""
_SECONDS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?P<number>[\d.]+) ?(?P<unit>ms|[nuµsmh])", re.IGNORECASE)
_DATE = re.compile(r"(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )$")
_BEGINNING = re.compile(r"(?:^|\n)\[?$")
_LONGEST_BEFORE = 12
"""Characters of a date, and the blank after it."""


class Counting:
    """Looks at each call once, in call order."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[Call]] = {}

    def forget(self) -> None:
        self._seen.clear()

    def goes_on(self, call: Call) -> bool:
        """Whether a count in its result has moved one way through the latest results of this call, whatever its numbers."""
        key = call.name, call.shape
        seen = self._seen.pop(key, None) or deque(maxlen=_WINDOW)
        self._seen[key] = seen
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        seen.append(call)
        if len(seen) < _WINDOW or not all(vary_only(other, call) for other in seen):
            return False
        varying = [lines for lines in zip(*(each.rows for each in seen), strict=True) if len(set(lines)) > 1]
        times: list[list[tuple[int, bool]]] = []
        for lines in zip(*varying, strict=True):
            times.append(list(islice((time for line in lines for time in _times(line)), _MOST + 1)))
            if len(times[-1]) > _MOST or len(times[-1]) != len(times[0]):
                return False
        return any(map(_moves, zip(*times, strict=True)))


def _moves(places: Sequence[tuple[int, bool]]) -> bool:
    """One place of each result: its whole seconds (or the date), and whether it may be the time of day, which rises by itself."""
    steps = [after - before for (before, _), (after, _) in pairwise(places)]
    falls = all(step <= 0 for step in steps)
    rises = all(step >= 0 for step in steps) and not any(is_time_of_day for _, is_time_of_day in places)
    return (falls or rises) and sum(step != 0 for step in steps) >= _MOVES


def _times(text: str) -> list[tuple[int, bool]]:
    """Each date, time and duration of a line, "2 min 30 s" as one."""
    found: list[tuple[int, bool]] = []
    end = -1
    for match in VOLATILE.finditer(text):
        if match["clock"]:
            found.append((_clock(match["clock"]), _is_time_of_day(text, match)))
        elif match["duration"]:
            seconds = _duration(match["duration"])
            if end >= 0 and not text[end : match.start()].strip(" "):
                seconds += found.pop()[0]
            found.append((seconds, False))
        elif match["date"]:
            found.append((int(match["date"].replace("-", "")), False))
        end = match.end() if match["duration"] else -1
    return found


def _duration(text: str) -> int:
    match = _DURATION.match(text)
    return int(float(match["number"]) * _SECONDS[match["unit"].lower()]) if match else 0


def _clock(text: str) -> int:
    """Of h:mm:ss in seconds; of two numbers, whatever they are, in the smaller unit."""
    whole = 0
    for part in re.split(r"[.,]", text)[0].split(":"):
        whole = whole * 60 + int(part)
    return whole


def _is_time_of_day(text: str, match: re.Match[str]) -> bool:
    """With seconds, after a date or where a line begins; what has lasted for less than an hour begins with a zero."""
    before = text[max(0, match.start() - _LONGEST_BEFORE) : match.start()]
    hour, *others = match["clock"].split(":")
    return len(others) > 1 and bool(_DATE.search(before) or (int(hour) and _BEGINNING.search(before)))
