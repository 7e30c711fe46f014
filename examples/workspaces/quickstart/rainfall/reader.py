"""Reading a station's file: one `date,millimetres` line a day, `#` starts a comment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date


def read_days(lines: Iterable[str]) -> dict[date, float]:
    """The rainfall of each day, in the file's order. Raises ValueError naming the line that cannot be read."""
    days: dict[date, float] = {}
    for number, line in enumerate(lines, start=1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        day, comma, millimetres = line.partition(",")
        if not comma:
            raise ValueError(f"line {number}: expected date,millimetres")
        days[date.fromisoformat(day.strip())] = float(millimetres)
    return days
