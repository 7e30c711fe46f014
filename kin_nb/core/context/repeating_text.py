"""RepeatingText: notice, while a reply streams, that it repeats the same piece again and again."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_PIECE = 1_000
_ANCHOR = 40
"""Characters that are looked up in the text before them: the distance is the period."""
_TAIL = 2 * _MAX_PIECE + _ANCHOR
_INTERVAL = 100
"""Characters between two searches for a period."""
_MIN_PROSE = (10, 600)
"""Repetitions and characters from which repeating prose is reported."""
_MIN_OTHER = (100, 20_000)
"""The same for code, tables, lists, numbers and rows of dashes, which may repeat for a good reason."""
_MIN_LETTERS = 5
"""Different letters in a piece of prose: a sequence of genes has four."""
_FENCES = ("```", "~~~")
_STRUCTURE = re.compile(r"^[ \t]*(?:[-*+•|#>]|\d+[.)]|```|~~~)", re.MULTILINE)


@dataclass(frozen=True)
class RepeatedPiece:
    piece: str
    count: int


class RepeatingText:
    """The end of one reply, and its period, if it has one. The cost of a character does not depend on the length of the reply."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin another reply."""
        self._tail = self._line_start = ""
        self._is_fenced = False
        self._period = self._length = self._since_search = 0

    def feed(self, delta: str) -> RepeatedPiece | None:
        """Add the next text. Returns the repeated piece once; then another reply begins."""
        for start in range(0, len(delta), _INTERVAL):
            self._add(delta[start : start + _INTERVAL])
            if self._is_repeating():
                found = RepeatedPiece(self._tail[-self._period :], self._length // self._period)
                self.clear()
                return found
        return None

    def _add(self, text: str) -> None:
        self._track_fences(text)
        if self._period:
            rounds = len(text) // self._period + 1
            continues = (self._tail[-self._period :] * rounds).startswith(text)
            self._period, self._length = (self._period, self._length + len(text)) if continues else (0, 0)
        self._tail = (self._tail + text)[-_TAIL:]
        self._since_search += len(text)
        if not self._period and self._since_search >= _INTERVAL:
            self._find_period()

    def _find_period(self) -> None:
        self._since_search = 0
        tail = self._tail
        before = tail.rfind(tail[-_ANCHOR:], 0, len(tail) - 1)
        period = len(tail) - _ANCHOR - before
        if before >= 0 and period <= _MAX_PIECE and tail[-period:] == tail[-2 * period : -period]:
            self._period, self._length = period, 2 * period

    def _is_repeating(self) -> bool:
        if not self._period:
            return False
        reached = self._length // self._period, self._length
        if any(have < least for have, least in zip(reached, _MIN_PROSE, strict=True)):
            return False
        if all(have >= least for have, least in zip(reached, _MIN_OTHER, strict=True)):
            return True
        return not self._is_fenced and _is_prose(self._tail[-self._period :])

    def _track_fences(self, text: str) -> None:
        first, *others = text.split("\n")
        self._line_start = (self._line_start + first)[:_ANCHOR]
        for line in others:
            if self._line_start.lstrip().startswith(_FENCES):
                self._is_fenced = not self._is_fenced
            self._line_start = line[:_ANCHOR]


def _is_prose(piece: str) -> bool:
    """Whether it is mostly letters, several different ones, without a line of a list, a table, a heading or a quotation."""
    letters = [character for character in piece if character.isalpha()]
    if 2 * len(letters) < len(piece) or len(set(letters)) < _MIN_LETTERS:
        return False
    return _STRUCTURE.search(f"{piece}{piece}", 1) is None
