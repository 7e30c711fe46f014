"""Where a text that is not found might be meant: a hint in an error, never something that is applied."""

from __future__ import annotations

import difflib
from collections import Counter

_ALIKE = 0.6
"""Share of likeness from which lines are worth showing."""
_LONGEST_LINE = 200
"""Characters of a line that are compared."""
_MOST_LINES = 3_000
"""Lines that are compared one by one when no line of the text is there as it is."""
_COMMON = 50
"""A line that a file has more often tells nothing about the place."""
_SHOWN = 2_000
"""Characters of the file in the hint."""


def where_it_might_be(text: str, old: str) -> str:
    """Sentences on why `old` is not in `text`: the lines that differ in blanks only, or those that are closest."""
    wanted, lines = (content.replace("\r\n", "\n").split("\n") for content in (old.strip("\r\n"), text))
    start, share = _closest([line.strip() for line in lines], [line.strip() for line in wanted])
    if share < _ALIKE:
        return "Read the file again: nothing in it is like it."
    there = lines[start : start + len(wanted)]
    only_blanks = [line.split() for line in there] == [line.split() for line in wanted]
    why = "differ in blanks only" if only_blanks else f"are the closest, {int(share * 100)} % alike"
    shown = "\n".join(there)
    return f"Lines {start + 1}-{start + len(there)} {why}. They are:\n" + (
        f"{shown[:_SHOWN]} …" if len(shown) > _SHOWN else shown
    )


def _closest(lines: list[str], wanted: list[str]) -> tuple[int, float]:
    """(index, share of likeness 0-1) of the lines most like `wanted`."""
    starts = [max(0, start) for start in _starts(lines, wanted)]
    shares = [(_share(lines[start : start + len(wanted)], wanted), -start) for start in starts]
    share, start = max(shares, default=(0.0, 0))
    return -start, share


def _starts(lines: list[str], wanted: list[str]) -> list[int]:
    """A few places that are worth comparing: where most lines are as wanted, else where one line is alike."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        places.setdefault(line, []).append(index)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        found = places.get(line, [])
        if line and len(found) <= _COMMON:
            votes.update(index - offset for index in found)
    if votes:
        return [start for start, _ in votes.most_common(5)]
    offset, longest = max(enumerate(wanted), key=lambda entry: len(entry[1]))
    some = {line[:_LONGEST_LINE]: indexes[0] for line, indexes in list(places.items())[:_MOST_LINES] if line}
    alike = difflib.get_close_matches(longest[:_LONGEST_LINE], some, n=3, cutoff=_ALIKE)
    return [some[line] - offset for line in alike]


def _share(lines: list[str], wanted: list[str]) -> float:
    pairs = zip(lines, wanted, strict=False)
    return sum(1.0 if a == b else _alike(a[:_LONGEST_LINE], b[:_LONGEST_LINE]) for a, b in pairs) / len(wanted)


def _alike(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio()
