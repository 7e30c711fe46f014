"""The parts of a change to one text, and the text with only some of them. Pure; parts count from 0, as the diff has them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
_Group = list[tuple[str, int, int, int, int]]


def split_patch(patch: str) -> tuple[str, list[str]]:
    """The lines that name the file, and each hunk of a unified diff of that one file, from its `@@` line on."""
    header, *parts = _HUNK.split(patch)  # a line of the file begins with its mark, so with no `@@`
    return header, parts


def with_hunks(before: str, after: str, chosen: Collection[int]) -> str:
    """`before` with the chosen hunks of its change to `after`: all of them give `after`, none `before`, to the byte.

    Where lines differ in their endings alone, which no diff shows, `before` is kept unless all are chosen.
    Raises ValueError for a hunk that there is not.
    """
    old, new = _lines(before), _lines(after)
    groups = _groups(old, new)
    if wrong := sorted(set(chosen) - set(range(len(groups)))):
        raise ValueError(f"there is no part {wrong[0] + 1} of {len(groups)}")
    if len(set(chosen)) == len(groups):
        return after if groups else before
    pieces: list[str] = []
    position = 0
    for number, group in enumerate(groups):
        start, end = group[0][1], group[-1][2]
        pieces += old[position:start]
        pieces += _taken(old, new, group) if number in chosen else old[start:end]
        position = end
    return "".join([*pieces, *old[position:]])


def _taken(old: list[str], new: list[str], group: _Group) -> list[str]:
    return [line for tag, i1, i2, j1, j2 in group for line in (old[i1:i2] if tag == "equal" else new[j1:j2])]


def _groups(old: list[str], new: list[str]) -> list[_Group]:
    """As difflib.unified_diff draws them from lines that all end in LF (text_file.unified_diff)."""
    left, right = ([line.replace("\r\n", "\n") for line in lines] for lines in (old, new))
    return [list(group) for group in difflib.SequenceMatcher(None, left, right).get_grouped_opcodes(3)]


def _lines(text: str) -> list[str]:
    """With their own endings; a form feed or a lone CR belongs to its line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
