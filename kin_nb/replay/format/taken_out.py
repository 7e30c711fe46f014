"""Texts that something was taken out of when they were saved: compared without it, and what stood there is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kin_nb.core.safety.secrets import REDACTED, SECRET

TAKEN_OUT = "kin-redacted"
"""The tag of an ordinary cell whose saved output has something taken out; saving sets it, and removes it."""
NOT_SHOWN = "it is not shown: something was taken out of this text when it was saved"
_MARK = re.compile(f"{re.escape(SECRET)}|{re.escape(REDACTED)}")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def holds_marks(text: str) -> bool:
    """Whether saving took something out of `text`."""
    return _MARK.search(text) is not None


@dataclass(frozen=True)
class Aligned:
    """`text`: the new text, with the mark in place of each of `values`, which stands where the saved one has a mark."""

    text: str
    values: tuple[str, ...] = ()


def align(saved: str, now: str) -> Aligned:
    """Put the marks of `saved` into `now`, line by line: a mark is for one character or more of a line.

    Lines that differ otherwise stay as they are. Linear.
    """
    if not holds_marks(saved):
        return Aligned(now)
    if "\x1b" not in saved:  # a text from which something goes loses its colours
        now = _COLOUR.sub("", now)
    lines = now.split("\n")
    values: list[str] = []
    for number, (line, old) in enumerate(zip(lines, saved.split("\n"), strict=False)):
        found = _values(old, line) if line != old else ()
        if found:
            lines[number] = old
            values += found
    return Aligned("\n".join(lines), tuple(values))


def _values(saved: str, now: str) -> tuple[str, ...]:
    """What stands in the line `now` where `saved` has marks; empty where the rest of it differs."""
    first, *parts = _MARK.split(saved)
    if not parts or not now.startswith(first):
        return ()
    found, at = [], len(first)
    for part in parts[:-1]:
        end = now.find(part, at + 1)
        if end < 0:
            return ()
        found.append(now[at:end])
        at = end + len(part)
    end = len(now) - len(parts[-1])
    if end <= at or not now.endswith(parts[-1]):
        return ()
    return (*found, now[at:end])
