"""The chain of the audit log: each line holds its number and the sha256 of the line before, and a small file the last of both.

So a line that was edited, removed or put in between is found, and one that is missing at either end. Not found is what a
process writes that computes all hashes again, in the log and in that file: the chain has no key that only kin_nb knows.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_TAIL = 1 << 16
"""Bytes at the end of a file that its last line is looked for in."""
_WIDTH = 160
"""Bytes of the head file: it is overwritten in one call."""
_HEAD_WAS_MISSING = (
    "the head file was missing when this line was written: lines that were cut off before it are not noticed."
)


@dataclass(frozen=True)
class Head:
    """`count`: lines written so far; `last`: the hash of the last one; `first`: the number of the oldest line that is kept."""

    count: int = 0
    last: str = ""
    first: int = 1

    @classmethod
    def read(cls, path: Path) -> Head | None:
        """None when there is none, or none that can be read."""
        try:
            values = json.loads(path.read_bytes()[:_WIDTH])
            return cls(int(values["count"]), str(values["last"]), int(values["first"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write(self, path: Path) -> None:
        """Raises OSError."""
        text = json.dumps({"count": self.count, "last": self.last, "first": self.first})
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            os.pwrite(descriptor, text.ljust(_WIDTH - 1).encode() + b"\n", 0)
        finally:
            os.close(descriptor)

    def before_next(self, file: int, size: int) -> Head:
        """The head that the next line of an open log follows: this one, or the line that was written as a process ended.

        A log that has been cut does not become the head: the gap stays visible.
        """
        line = _last_line(file, size)
        values = _values(line) if line and line_hash(line) != self.last else {}
        number = values.get("number")
        if isinstance(number, int) and number == self.count + 1 and values.get("previous") == self.last:
            return Head(number, line_hash(line), self.first)
        return self

    @classmethod
    def of_the_log(cls, file: int, size: int) -> Head:
        """In the place of a head file that is missing."""
        line = _last_line(file, size)
        number = _values(line).get("number")
        return cls(number if isinstance(number, int) else 0, line_hash(line) if line else "")


def line_hash(line: bytes) -> str:
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def problems(files: Iterable[tuple[str, BinaryIO]], head: Head | None) -> Iterator[str]:
    """A sentence for each place where the log is not as it was written. `files`: the oldest first, each with its name."""
    before = _Place()
    for name, file in files:
        for at, line in enumerate(file, 1):
            if line == b"\n":
                continue
            values = _values(line)
            if not isinstance(values.get("number"), int):
                yield f"{name}:{at}: this is not a line as kin-nb writes it."
                continue
            if problem := before.problem(values, head):
                yield f"{name}:{at}: {problem}"
            if values.get("head_missing"):
                yield f"{name}:{at}: {_HEAD_WAS_MISSING}"
            before = _Place(values["number"], line_hash(line))
            if head is not None and before.number == head.count and before.hash != head.last:
                yield f"{name}:{at}: the line was changed."
    if head is None and before.number:
        yield "the head file is missing, so lines that were cut off at the end would not be noticed."
    if head is not None and before.number < head.count:
        yield f"{_lines(before.number + 1, head.count)} missing at the end: the log was cut."


@dataclass(frozen=True)
class _Place:
    """A line of the chain; number 0: none yet."""

    number: int = 0
    hash: str = ""

    def problem(self, values: dict[str, Any], head: Head | None) -> str:
        """Why the line of these values cannot come next; "" when it can."""
        own = values["number"]
        if not self.number and own > 1:
            missing = head is not None and own != head.first
            return f"the lines before number {own} are missing." if missing else ""
        if own > self.number + 1:
            return f"{_lines(self.number + 1, own - 1)} missing before it."
        if own != self.number + 1 or values.get("previous") != self.hash:
            return "it does not follow the line before: one of the two was changed, or put there."
        return ""


def number_of_first(path: Path) -> int | None:
    """Of the first line of a log file."""
    try:
        with path.open("rb") as file:
            number = _values(file.readline(_TAIL)).get("number")
    except OSError:
        return None
    return number if isinstance(number, int) else None


def _lines(first: int, last: int) -> str:
    return f"line number {first} is" if first == last else f"lines number {first} to {last} are"


def _last_line(file: int, size: int) -> bytes:
    tail = os.pread(file, _TAIL, max(0, size - _TAIL)).rstrip(b"\n")
    return tail.rpartition(b"\n")[2]


def _values(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
