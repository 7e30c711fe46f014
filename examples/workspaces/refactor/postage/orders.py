"""Reads the shop's orders."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator


def read_orders(lines: Iterable[str]) -> Iterator[tuple[str, int, int, int, int]]:
    for row in csv.DictReader(lines):
        yield row["name"], int(row["grams"]), int(row["length"]), int(row["width"]), int(row["height"])
