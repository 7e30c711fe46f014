"""Text edits: a hint for a text that is not found, the minimal edit between two texts, and a summary of a change."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest

from kin_nb.core.redaction import SECRET
from kin_nb.core.text import listed
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.text_file import TextFile, lines_of, split_lines

_MIN_SIMILARITY = 0.6
"""From here on (0 to 1), lines are worth showing."""
_LONGEST_LINE = 200
"""Characters of a line that are compared."""
_MOST_LINES = 3_000
"""Lines of the file that are compared one by one if none equals a wanted line."""
_TRIED_LINES = 3
"""Wanted lines, the longest ones, that are searched for a similar one if none equals a line of the file."""
_COMMON = 50
"""A line that occurs more often in the file does not help to find the place."""
_SPARE = 3
"""Lines before and after a place that are compared too: the wanted text may miss some lines of the file."""
_SHOWN_CHARACTERS = 2_000
"""Characters of the comparison in the hint."""
_CONTEXT = 2
"""Equal lines shown around a difference."""
_RUN = 10
"""Consecutive different lines that are shown."""
_NUMBERED = re.compile(r" *\d+\t")


@dataclass(frozen=True)
class _Match:
    """Lines `start` to `end` (0-based, `end` excluded) of the file, and their similarity to the wanted ones, 0 to 1."""

    start: int
    end: int
    share: float


def closest_match_hint(text: str, old: str, called: str = "old_string") -> str:
    """Explain why `old` is not in `text`: show how the closest lines differ. For an error message; it is never applied.

    `called`: the argument that holds `old`.
    """
    if SECRET in old:
        return (
            f"{SECRET} in {called} is a placeholder for a hidden secret, not text of the file.\n"
            "Choose lines without it, or ask the user to change that line."
        )
    wanted, lines = (content.replace("\r\n", "\n").split("\n") for content in (old.strip("\r\n"), text))
    if all(_NUMBERED.match(line) for line in wanted):
        return f"Its lines begin with read_file's line numbers, which are not part of the file. Give {called} without them."
    place = _closest([line.strip() for line in lines], [line.strip() for line in wanted])
    if place.share < _MIN_SIMILARITY:
        return "No similar lines were found. Read the file again."
    there = lines[place.start : place.end]
    where = f"line {place.end}" if len(there) == 1 else f"lines {place.start + 1}-{place.end}"
    if there == wanted:
        return f"Closest: {where}, which differs only in blank lines before or after."
    why = _why(there, wanted, place)
    return f"Closest: {where}, {why} (- {called}, + the file):\n{_difference(there, wanted, place.start)}"


def _why(there: list[str], wanted: list[str], place: _Match) -> str:
    if [line.split() for line in there] != [line.split() for line in wanted]:
        return f"{min(99, int(place.share * 100))} % alike"
    pairs = enumerate(zip(there, wanted, strict=True), place.start + 1)
    number, its, own = next((number, *pair) for number, pair in pairs if pair[0] != pair[1])
    return f"which differ only in whitespace: line {number} is {its[:_LONGEST_LINE]!r}, not {own[:_LONGEST_LINE]!r}"


def _difference(there: list[str], wanted: list[str], start: int) -> str:
    """Compare line by line; lines of the file have their numbers, so that an empty one is visible."""
    shown = "\n".join(_compared(there, wanted, start))
    return f"{shown[:_SHOWN_CHARACTERS]} …" if len(shown) > _SHOWN_CHARACTERS else shown


def _compared(there: list[str], wanted: list[str], start: int) -> Iterator[str]:
    groups = difflib.SequenceMatcher(None, wanted, there).get_grouped_opcodes(_CONTEXT)
    for number, group in enumerate(groups):
        if number:
            yield "  …"
        for kind, i1, i2, j1, j2 in group:
            if kind != "equal":
                yield from _first([f"-{'':>6}\t{line}" for line in wanted[i1:i2]])
            sign = " " if kind == "equal" else "+"
            yield from _first([f"{sign}{start + j + 1:>6}\t{there[j]}" for j in range(j1, j2)])


def _first(lines: list[str]) -> Iterator[str]:
    yield from lines[:_RUN]
    if len(lines) > _RUN:
        yield f"{lines[0][0]} … {len(lines) - _RUN} more"


def _closest(lines: list[str], wanted: list[str]) -> _Match:
    places = [_fitted(lines, wanted, start) for start in _starts(lines, wanted)]
    return max(places, key=lambda place: (place.share, -place.start), default=_Match(0, 0, 0.0))


def _starts(lines: list[str], wanted: list[str]) -> list[int]:
    """A few candidate places: those with most equal lines, otherwise those where one of the longest lines is similar.

    A place is the line of the file that belongs to the first wanted line; negative if wanted lines come before the file's first.
    """
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
    some = {line[:_LONGEST_LINE]: indexes[0] for line, indexes in list(places.items())[:_MOST_LINES] if line}
    starts: dict[int, None] = {}
    for offset, line in nlargest(_TRIED_LINES, enumerate(wanted), key=lambda entry: len(entry[1])):
        alike = difflib.get_close_matches(line[:_LONGEST_LINE], some, n=3, cutoff=_MIN_SIMILARITY)
        starts |= dict.fromkeys(some[other] - offset for other in alike)
    return list(starts)


def _fitted(lines: list[str], wanted: list[str], start: int) -> _Match:
    """The best match around `start` (as in `_starts`), which may have a few lines more or fewer than `wanted`."""
    first, end, missing = max(0, start), min(len(lines), start + len(wanted)), max(0, -start)
    exact = _Match(first, end, _share(lines[first:end], wanted, missing))
    begin = max(0, start - _SPARE)
    region = lines[begin : start + len(wanted) + _SPARE]
    codes = difflib.SequenceMatcher(None, wanted, region).get_opcodes()
    if not any(code[0] == "equal" for code in codes):
        return exact
    ends = codes[0], codes[-1]
    before, after = (0 if code[0] == "equal" else (code[4] - code[3]) - (code[2] - code[1]) for code in ends)
    low, high = max(0, before), len(region) - max(0, after)
    trimmed = _Match(begin + low, begin + high, _share(region[low:high], wanted))
    return max(trimmed, exact, key=lambda place: place.share)


def _share(lines: list[str], wanted: list[str], missing: int = 0) -> float:
    """Similarity weighted by characters, so that a missing blank line weighs little. Unmatched lines count as different.

    `missing`: the first wanted lines, which would come before the file's first line. They count half, so that they do not hide
    the others.
    """
    alike, total = 0.0, sum((min(len(line), _LONGEST_LINE) + 1) / 2 for line in wanted[:missing])
    wanted = wanted[missing:]
    for _, i1, i2, j1, j2 in difflib.SequenceMatcher(None, wanted, lines).get_opcodes():
        for offset in range(max(i2 - i1, j2 - j1)):
            a = wanted[i1 + offset][:_LONGEST_LINE] if i1 + offset < i2 else ""
            b = lines[j1 + offset][:_LONGEST_LINE] if j1 + offset < j2 else ""
            weight = max(len(a), len(b)) + 1
            total += weight
            alike += weight * (1.0 if a == b and i1 + offset < i2 and j1 + offset < j2 else _likeness(a, b))
    return alike / total if total else 0.0


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio() if a and b else 0.0


def minimal_edit(before: str, after: str) -> tuple[str, str] | None:
    """Return (old, new): the fewest whole lines that occur once in `before` and whose replacement gives `after`.

    None if one replacement cannot do that: no change, an empty `before`, or mixed line endings.
    """
    if before == after:
        return None
    old, new = (split_lines(text) for text in (before, after))
    start = _common_start(old, new)
    end = _common_start(old[start:][::-1], new[start:][::-1])
    is_unique = partial(_is_unique, before, old, start, end)
    around, most = 0, max(start, end)
    while not is_unique(around):
        if around >= most:
            return None
        around = min(around * 2 or 1, most)
    around = bisect_left(range(around), x=True, key=is_unique)
    for reach in (around, around + 1):  # removed lines may take the line ending before them along
        texts = _window(old, start, end, reach), _window(new, start, end, reach)
        if text_file.replaced(TextFile(before), text_file.find(before, texts[0]), texts[1]) == after:
            return texts
    return None


def _is_unique(text: str, lines: list[str], start: int, end: int, around: int) -> bool:
    old = _window(lines, start, end, around)
    return bool(old.strip()) and len(text_file.find(text, old)) == 1


def _window(lines: list[str], start: int, end: int, around: int) -> str:
    """The lines between the first `start` and the last `end`, and up to `around` more on either side."""
    return "".join(lines[max(start - around, 0) : len(lines) - max(end - around, 0)])


_SHOWN_PLACES = 10


def edit_summary(before: str, after: str) -> str:
    """The changed lines: `lines 3, 351-372 (+23 -1)`.

    Numbers are 1-based and count after the edit. Removed lines are listed at the line that follows them.
    """
    old, new = lines_of(before), lines_of(after)
    start = _common_start(old, new)
    end = _common_start(old[start:][::-1], new[start:][::-1])
    matcher = difflib.SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end])
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    if not changes:
        return "nothing changed"
    counts = f"(+{sum(j2 - j1 for *_, j1, j2 in changes)} -{sum(i2 - i1 for _, i1, i2, _, _ in changes)})"
    if not new:
        return f"empty now {counts}"
    places = [_place(start + j1, start + j2, len(new)) for *_, j1, j2 in changes]
    word = "line" if len(places) == 1 and "-" not in places[0] else "lines"
    return f"{word} {listed(places, _SHOWN_PLACES)} {counts}"


def _common_start(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of equal lines at the beginning of both."""
    pairs = zip(old, new, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _place(start: int, end: int, total: int) -> str:
    first = min(start + 1, total)
    return f"{first}-{end}" if end > first else str(first)
