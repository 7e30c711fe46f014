"""Which boats the board shows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import date

from board.clock import shown

WEEKEND = (5, 6)


def rows(lines: Iterable[str], day: date) -> Iterator[str]:
    runs = {"daily", "weekend" if day.weekday() in WEEKEND else "weekdays"}
    for boat in csv.DictReader(lines):
        if boat["days"] in runs:
            yield f"{shown(boat['departs'], day)}  {boat['line']}  {boat['to'].upper()}"
