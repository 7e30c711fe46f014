"""Call: one tool call and its result, in the forms in which they are compared. Each form is made once, when asked for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from kin_nb.core.records import canonical_json

_MOST = 40_000
"""Characters of a text that are kept for likeness, half of them from its end; sameness looks at all of it."""
_SHOWN = 120
_SUBJECTS = ("path", "file_path", "url")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_BETWEEN_WORDS = re.compile(r"""[\s'"`|&;<>(){}\[\]=,:?]+""")

VOLATILE = re.compile(
    r"""
      0x[0-9a-f]{4,16}                                                  # addresses
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}      # uuids
    | (?P<date>\d{4}-\d\d-\d\d)
    | (?P<clock>\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)
    | (?P<duration>\d{1,9}(?:\.\d{1,9})?\ ?(?:ns|us|µs|ms|s|secs?|seconds?|m|min|mins|minutes?|h|hours?)\b)
    | (?<=pid)[^\w\n]{0,3}\d{1,9}                                       # processes
    | (?<=/tmp)/[\w.-]{1,80}                                            # temporary files
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Call:
    """`arguments`: canonical where they are JSON, else as the model wrote them."""

    def __init__(self, name: str, arguments: str, result: str, *, ok: bool) -> None:
        self.name, self.ok = name, ok
        self.counts = False
        """Whether its result counts on where the same call's results before it did (counting.py)."""
        self._written = arguments
        self._steady: dict[int, str] = {}
        canonical = _canonical(arguments)
        self.key = _digest(name, canonical, result)
        self.arguments, self.result = _kept(canonical), _kept(result)

    @cached_property
    def shape(self) -> str:
        """The arguments with every number as `#`."""
        return re.sub(r"\d+", "#", self.arguments)

    @cached_property
    def subjects(self) -> frozenset[str]:
        """The file or address that it names, and of a command the words that name something: a.py, host3, not 20,30p."""
        try:
            given: Any = json.loads(self._written)
        except (ValueError, RecursionError):
            return frozenset()
        if not isinstance(given, dict):
            return frozenset()
        named = {given[key] for key in _SUBJECTS if isinstance(given.get(key), str)}
        command = given.get("command")
        words = _BETWEEN_WORDS.split(command) if isinstance(command, str) else ()
        return frozenset(named.union(filter(_names_something, words)))

    @cached_property
    def rows(self) -> Sequence[str]:
        """The lines of its result, in their order."""
        return self.result.split("\n")

    def steady(self, row: int) -> str:
        """A line without what varies from run to run: times, durations, addresses, process numbers.

        A count may be among them: see counting.py.
        """
        if row not in self._steady:
            self._steady[row] = VOLATILE.sub("~", self.rows[row])
        return self._steady[row]

    def without_own_numbers(self, line: str) -> str:
        """A line of its result; numbers that the call itself names as `#`."""
        own = set(_NUMBER.findall(self.arguments))
        return _NUMBER.sub(lambda number: "#" if number[0] in own else number[0], line)

    @cached_property
    def lines(self) -> frozenset[str]:
        return frozenset(map(str.strip, self.result.splitlines()))

    @property
    def shown(self) -> str:
        """On one line, cut."""
        return quoted(f"{self.name} {self._written}", _SHOWN)


def differing(one: Call, other: Call) -> Iterator[int]:
    """The rows in which two results differ by more than times and the like; both must have as many rows.

    Only rows that differ at all are looked into: results are long, and most of them say again what the one before said.
    """
    for row, (a, b) in enumerate(zip(one.rows, other.rows, strict=True)):
        if a != b and one.steady(row) != other.steady(row):
            yield row


def vary_only(one: Call, other: Call) -> bool:
    """Whether the results say the same, but for times and the like."""
    return len(one.rows) == len(other.rows) and next(differing(one, other), None) is None


def quoted(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters, only printable ones."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _names_something(word: str) -> bool:
    return "." in word or "/" in word or bool(re.search(r"[^\W\d]{2}", word) and re.search(r"\d", word))


def _canonical(arguments: str) -> str:
    try:
        return canonical_json(json.loads(arguments or "{}"))
    except (ValueError, RecursionError):
        return arguments.strip()


def _digest(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.digest()


def _kept(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}\n{text[-_MOST // 2 :]}"
