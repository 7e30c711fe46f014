"""The page's lines."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import date

SATURDAY = 5


def sentences(lines: Iterable[str], day: date) -> Iterator[str]:
    weekend = day.weekday() >= SATURDAY
    for boat in csv.DictReader(lines):
        if boat["days"] == ("weekdays" if weekend else "weekend"):
            continue
        yield f"Line {boat['line']} to {boat['to']} departs at {boat['departs']}."
