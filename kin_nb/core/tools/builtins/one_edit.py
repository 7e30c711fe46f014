"""A change to a text as one replacement of whole lines that stand there once."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import partial
from itertools import takewhile

from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.text_file import TextFile


def one_edit(before: str, after: str) -> tuple[str, str] | None:
    """(old, new): the fewest lines that occur once in `before` and, replaced, give `after`.

    None where no one replacement does that: nothing changes, nothing is there yet, or line endings are mixed.
    """
    if before == after:
        return None
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (before, after))
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    stands_once = partial(_stands_once, before, old, start, end)
    around, most = 0, max(start, end)
    while not stands_once(around):
        if around >= most:
            return None
        around = min(around * 2 or 1, most)
    around = bisect_left(range(around), x=True, key=stands_once)
    for reach in (around, around + 1):  # lines replaced by nothing may take the line ending before them along
        texts = _window(old, start, end, reach), _window(new, start, end, reach)
        if text_file.replaced(TextFile(before), text_file.find(before, texts[0]), texts[1]) == after:
            return texts
    return None


def _stands_once(text: str, lines: list[str], start: int, end: int, around: int) -> bool:
    old = _window(lines, start, end, around)
    return bool(old.strip()) and len(text_file.find(text, old)) == 1


def _window(lines: list[str], start: int, end: int, around: int) -> str:
    """The lines between the first `start` and the last `end`, and up to `around` more on either side."""
    return "".join(lines[max(start - around, 0) : len(lines) - max(end - around, 0)])


def _alike(old: list[str], new: list[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
