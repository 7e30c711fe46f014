"""Call signatures: a tool call with its result, in the forms in which calls are compared, and when two calls are near repeats.

Pure: no I/O and no clock. Some parts of a result change each time by themselves: dates with times, fractions of a second, memory
addresses, process ids and temporary files. They are ignored when two results are compared (NOISE). Every other change is
progress: a command whose output counts up or down is polling, not a loop.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kin_nb.core.records import canonical_json
from kin_nb.core.text import shorten

NOISE = re.compile(
    r"""
      0x[0-9a-f]{4,16}                                                  # memory addresses
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}      # UUIDs
    | (?:\d{4}-\d\d-\d\d[T ]|[a-z]{3}\ [ \d]\d\ |^\[?(?!00))            # a date, or where a line begins, and
      \d\d:\d\d:\d\d(?:[.,]\d{1,9})?                                    #   the time of day
    | \d{1,9}(?:\.\d{1,9}\ ?m?|\ ?[mnuµ])s\b                            # durations: 0.41s, 3 ms; "12 s" may be a countdown
    | (?<=pid)[^\w\n]{0,3}\d{1,9}                                       # process ids
    | (?<=/tmp)/[\w.-]{1,80}                                            # temporary files
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_BETWEEN_WORDS = re.compile(r"""[\s'"`|&;<>(){}\[\]=,:?]+""")
_TARGETS = ("path", "file_path", "url")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Delete|Update) File|Move to):[ \t]*(.*\S)", re.MULTILINE)
_MAX_TEXT = 40_000
"""Characters of arguments and result that are kept to compare, half of them from the end. The key covers the whole text."""
_MAX_LABEL = 120


class CallSignature:
    """One call. `key` is equal for calls with the same name, arguments and result, however the JSON of the arguments is written."""

    def __init__(self, name: str, arguments: str, result: str, *, ok: bool) -> None:
        canonical = _canonical(arguments)
        self.name, self.ok, self._written = name, ok, arguments
        self.key = _digest(name, canonical, result)
        self.arguments, self.result = _shortened(canonical, _MAX_TEXT), _shortened(result, _MAX_TEXT)

    @cached_property
    def label(self) -> str:
        """The call on one line, for messages."""
        return one_line(f"{self.name} {self._written}", _MAX_LABEL)

    @cached_property
    def shape(self) -> str:
        """The arguments with `#` for each number."""
        return re.sub(r"\d+", "#", self.arguments)

    @cached_property
    def targets(self) -> frozenset[str]:
        """The files and addresses that the arguments name, also in a patch.

        Of a command, the words that look like names (a.py, not 20,30p).
        """
        try:
            arguments: Any = json.loads(self._written)
        except (ValueError, RecursionError):
            return frozenset()
        if not isinstance(arguments, dict):
            return frozenset()
        named = {arguments[key] for key in _TARGETS if isinstance(arguments.get(key), str)}
        command, patch = arguments.get("command"), arguments.get("patch")
        words = _BETWEEN_WORDS.split(command) if isinstance(command, str) else ()
        patched = _PATCHED.findall(patch) if isinstance(patch, str) else ()
        return frozenset(named.union(filter(_is_name, words), patched))

    @cached_property
    def steady_result(self) -> str:
        """The result without noise."""
        return NOISE.sub("~", self.result)

    def without_own_numbers(self, line: str) -> str:
        """A line of the result, with `#` for the numbers that the arguments contain too."""
        return _NUMBER.sub(lambda number: "#" if number[0] in self._own_numbers else number[0], line)

    @cached_property
    def _own_numbers(self) -> frozenset[str]:
        return frozenset(_NUMBER.findall(self.arguments))

    @cached_property
    def lines(self) -> frozenset[str]:
        return frozenset(map(str.strip, self.result.splitlines()))


def one_line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, without the characters that cannot be printed."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return shorten(line, limit)


def _is_name(word: str) -> bool:
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


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}\n{text[-limit // 2 :]}"


Similarity = Callable[[str, str], float]
"""How similar two texts are: 0 when they share nothing, 1 when they are equal."""

_MIN_LINES = 8
_PIECE = 5
_MAX_PIECES = 4_000


def text_similarity(a: str, b: str) -> float:
    """The share of distinct parts that both texts have (Jaccard index). The parts are lines, or in short texts five characters.

    Linear in the length of the texts; their order does not count.
    """
    if a == b:
        return 1.0
    first, second = set(a.splitlines()), set(b.splitlines())
    if min(len(first), len(second)) < _MIN_LINES:
        first, second = _pieces(a), _pieces(b)
    return len(first & second) / max(1, len(first | second))


def _pieces(text: str) -> set[str]:
    text = _shortened(text, _MAX_PIECES)
    return {text[start : start + _PIECE] for start in range(max(1, len(text) - _PIECE + 1))}


SIMILARITY_THRESHOLD = 0.8
_MIN_RESULT = 200
"""A shorter result ("Edited a.py: 1 line.") is similar to many others by chance, unless the call failed."""
_MAX_NEW_LINES = 3


class NearRepeats:
    """Decide whether two calls of one tool are near repeats: they differ little, and so do their results.

    Calls with the same arguments are near repeats when the results differ in noise alone. Other calls must name the same
    files and addresses, and have results of at least 200 characters (or have failed) with a similarity of at least
    `threshold`. When the arguments differ in more than numbers (`grep foo`, `grep 'foo\\b'`), arguments and result must be
    closer: half and a quarter of the distance to 1 (with 0.8: 0.9 and 0.95). Runs that differ in a number and have the same
    result except for a line or a few (`train.py --seed 3`: "accuracy 0.71") are different experiments, not repeats.
    """

    def __init__(self, similarity: Similarity, threshold: float) -> None:
        self._similarity, self._threshold = similarity, threshold

    def match(self, before: CallSignature, now: CallSignature) -> bool:
        if before.name != now.name:
            return False
        if before.arguments == now.arguments:
            return before.key == now.key or before.steady_result == now.steady_result
        if before.targets != now.targets or not (_is_telling(before) and _is_telling(now)):
            return False
        if len(now.lines - before.lines) > _MAX_NEW_LINES or _is_other_experiment(before, now):
            return False
        required = self._threshold
        if before.shape != now.shape:
            distance = 1 - required
            required = 1 - distance / 4
            if self._similarity(before.arguments, now.arguments) < 1 - distance / 2:
                return False
        return self._similarity(before.result, now.result) >= required


def _is_telling(call: CallSignature) -> bool:
    return not call.ok or len(call.result) >= _MIN_RESULT


def _is_other_experiment(before: CallSignature, now: CallSignature) -> bool:
    """Whether a few lines say something else in the same place. In a window that moves over a file, every line moves."""
    first, second = before.steady_result.split("\n"), now.steady_result.split("\n")
    if not now.ok or len(first) != len(second):
        return False
    changed = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    return len(changed) <= _MAX_NEW_LINES and any(
        before.without_own_numbers(a) != now.without_own_numbers(b) for a, b in changed
    )
