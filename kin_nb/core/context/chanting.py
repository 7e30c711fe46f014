"""Chanting: a reply that says the same piece over and over. Found while it streams; costs the same for each character."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST = 1_000
"""Characters of a piece."""
_ANCHOR = 40
_TAIL = 2 * _LONGEST + _ANCHOR
_LOOK_EVERY = 100
_FEWEST = 10
"""Times that a piece of prose must come, and characters of it in all."""
_LEAST = 600
_FEWEST_STRUCTURED = 100
"""The same for code, tables, lists, numbers, rows of dashes: these repeat themselves rightly."""
_LEAST_STRUCTURED = 20_000
_LETTERS = 5
"""Different letters in a piece of prose, at least: a sequence of genes has four."""

_STRUCTURE = re.compile(r"^[ \t]*(?:[-*+•|#>]|\d+[.)]|```|~~~)", re.MULTILINE)
_FENCES = ("```", "~~~")


@dataclass(frozen=True)
class Chant:
    piece: str
    count: int


class Chanting:
    """One reply's text so far: its tail, the period that the tail has, and for how long it has had it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A new reply begins."""
        self._tail = self._line = ""
        self._fenced = False
        self._period = self._length = self._unseen = 0

    def feed(self, delta: str) -> Chant | None:
        """The chant that `delta` makes certain; from then on as if the reply began anew."""
        for start in range(0, len(delta), _LOOK_EVERY):
            self._add(delta[start : start + _LOOK_EVERY])
            chant = self._found()
            if chant is not None:
                self.reset()
                return chant
        return None

    def _add(self, text: str) -> None:
        self._watch_fences(text)
        if self._period:
            rounds = len(text) // self._period + 1
            goes_on = (self._tail[-self._period :] * rounds)[: len(text)] == text
            self._length += len(text)
            self._period = self._period if goes_on else 0
        self._tail = (self._tail + text)[-_TAIL:]
        self._unseen += len(text)
        if not self._period and self._unseen >= _LOOK_EVERY:
            self._look()

    def _look(self) -> None:
        """The distance to where the last characters came before is the period, if what lies between came twice."""
        self._unseen = 0
        tail = self._tail
        before = tail.rfind(tail[-_ANCHOR:], 0, len(tail) - 1)
        period = len(tail) - _ANCHOR - before
        if before < 0 or period > _LONGEST or tail[-period:] != tail[-2 * period : -period]:
            return
        self._period, self._length = period, 2 * period

    def _found(self) -> Chant | None:
        if not self._period:
            return None
        piece, count = self._tail[-self._period :], self._length // self._period
        if count < _FEWEST or self._length < _LEAST:
            return None
        certain = count >= _FEWEST_STRUCTURED and self._length >= _LEAST_STRUCTURED
        return Chant(piece, count) if certain or (_is_prose(piece) and not self._fenced) else None

    def _watch_fences(self, text: str) -> None:
        first, *others = text.split("\n")
        self._line = (self._line + first)[:_ANCHOR]
        for line in others:
            if self._line.lstrip().startswith(_FENCES):
                self._fenced = not self._fenced
            self._line = line[:_ANCHOR]


def _is_prose(piece: str) -> bool:
    """Mostly letters, several of them, and no line of a list, a table, a heading or a quotation."""
    letters = [character for character in piece if character.isalpha()]
    if 2 * len(letters) < len(piece) or len(set(letters)) < _LETTERS:
        return False
    return _STRUCTURE.search(f"{piece}{piece}", 1) is None
