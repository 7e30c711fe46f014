"""grep in this process, for what is surely done at once: a program of its own costs thirty times as much.

Nothing ends a regular expression that has begun. So a pattern is taken here only when the work that it may make is
known from its text, and given back, to be searched by a program, as soon as the search turns out to be a large one.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from pathlib import Path

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.grep_python import HEAD, as_printed, files, smart_case
from kin_nb.core.workspace import open_regular

SECONDS = 0.25
_LARGEST = 2_000_000
"""Bytes of a file that is searched here."""
_LONGEST_LINES = (_LARGEST, 1_000, 200)
"""Characters of the lines that a pattern with 0, 1 or 2 repetitions may meet: the work grows as a power of them."""
_MOST_GROUPS = 2

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.", re.DOTALL)
_REPETITION = re.compile(r"[*+?]|\{\d.*|\{,.*", re.DOTALL)
_SETS_OF_SETS = re.compile(r"^\[.*(\[|--|&&|\|\||~~)", re.DOTALL)
"""What `re` warns of: its meaning may change."""
_EDGES = re.compile(r"[$^]|\\[AZ]")
"""Without these a match in a line is one in the whole file too, so that a file without any is passed over."""


def longest_line(pattern: str) -> int | None:
    """Characters of the longest line that the pattern may be tried on here; None when it is not for here at all."""
    repetitions = groups = 0
    before = ""
    for part in _TOKEN.findall(pattern):
        if _REPETITION.fullmatch(part):
            if before in {")", "("}:  # a group that repeats, or one that is no plain group
                return None
            repetitions += 1
        groups += part == "("
        if re.fullmatch(r"\\\d", part) or _SETS_OF_SETS.match(part):
            return None
        before = part
    if groups > _MOST_GROUPS or repetitions >= len(_LONGEST_LINES):
        return None
    return _LONGEST_LINES[repetitions]


def search(root: Path, place: str, pattern: str, excludes: list[str], sink: Callable[[bytes], bool]) -> bool:
    """Hand each matching line to `sink`, as the program prints it, until it returns True (enough).

    False when the search is not for here: what `sink` got until then is worth nothing.
    """
    end = time.monotonic() + SECONDS
    longest = longest_line(pattern)
    if longest is None:
        return False
    try:
        regex = smart_case(pattern)
    except re.error:  # the program says what is wrong
        return False
    must_match = regex if longest == _LARGEST and not _EDGES.search(pattern) else None
    for name in files(str(root), place, excludes):
        content = _content(root / name)
        if content is None or time.monotonic() > end:
            return False
        if must_match and not must_match.search(_text(content)):
            continue
        for number, line in enumerate(io.BytesIO(content), 1):
            if len(line) > longest or time.monotonic() > end:
                return False
            found = line.rstrip(b"\r\n")
            if regex.search(_text(found)) and sink(as_printed(name, number, found)):
                return True
    return True


def _content(path: Path) -> bytes | None:
    """None for a file that is too large. What is binary (a NUL in its head), gone, or not for us to read, is empty."""
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
            content = b"" if b"\0" in head else head + file.read(_LARGEST + 1 - len(head))
    except (OSError, ToolError):
        return b""
    return content if len(content) <= _LARGEST else None


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
