"""What an edit has done, in one line for the model: the lines as they are now."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from kin_nb.core.tools.builtins.text_file import lines_of

_SHOWN = 10
"""Places that are named."""


def change(before: str, after: str) -> str:
    """`lines 3, 351-372 (+23 -1)`: numbers after the edit, from 1; lines that are gone at the one that took their place."""
    old, new = lines_of(before), lines_of(after)
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    matcher = difflib.SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end])
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    if not changes:
        return "nothing changed"
    counts = f"(+{sum(j2 - j1 for *_, j1, j2 in changes)} -{sum(i2 - i1 for _, i1, i2, _, _ in changes)})"
    if not new:
        return f"empty now {counts}"
    places = [_place(start + j1, start + j2, len(new)) for *_, j1, j2 in changes]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    word = "line" if len(places) == 1 and "-" not in places[0] else "lines"
    return f"{word} {', '.join(places[:_SHOWN])}{more} {counts}"


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(old, new, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _place(start: int, end: int, total: int) -> str:
    first = min(start + 1, total)
    return f"{first}-{end}" if end > first else str(first)
