"""Call signatures: one tool call and its result in the forms in which calls are compared, and when two are near repeats.

Pure: no I/O, no clock, nothing but the calls. What varies from run to run by itself (how long it took, what time it is) is
noise in a result; a countdown, or how long something has lasted, is news: that is polling, whatever else stays the same.
They look alike, so it is how they move that tells: one way, by whole seconds or days.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any, Protocol

from kin_nb.core.records import canonical_json

_MOST_KEPT = 40_000
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


class CallSignature:
    """`arguments`: canonical where they are JSON, else as the model wrote them."""

    def __init__(self, name: str, arguments: str, result: str, *, ok: bool) -> None:
        self.name, self.ok = name, ok
        self.counts = False
        """Whether its result counts on where the same call's results before it did (PollingDetector)."""
        self._written = arguments
        self._steady: dict[int, str] = {}
        canonical = _canonical(arguments)
        self.key = _digest(name, canonical, result)
        self.arguments, self.result = _cut_result(canonical), _cut_result(result)

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

        A count may be among them: see PollingDetector.
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


def differing(one: CallSignature, other: CallSignature) -> Iterator[int]:
    """The rows in which two results differ by more than times and the like; both must have as many rows.

    Only rows that differ at all are looked into: results are long, and most of them say again what the one before said.
    """
    for row, (a, b) in enumerate(zip(one.rows, other.rows, strict=True)):
        if a != b and one.steady(row) != other.steady(row):
            yield row


def vary_only(one: CallSignature, other: CallSignature) -> bool:
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


def _cut_result(text: str) -> str:
    return text if len(text) <= _MOST_KEPT else f"{text[: _MOST_KEPT // 2]}\n{text[-_MOST_KEPT // 2 :]}"


_CALLS_IN_TURN = 5
"""Different calls that take turns: longer cycles are no near repeats."""
_RESULTS_COMPARED = 5
"""Results of one call that are looked at: the first reminder of a near repeat comes with so many."""
_MOVES = 2
"""Of them, how many must differ from the one before: a poll may see a count twice."""
_MOST_TIMES = 200
"""Times and durations in one result that vary; more are a report of what was measured."""
_SECONDS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?P<number>[\d.]+) ?(?P<unit>ms|[nuµsmh])", re.IGNORECASE)
_DATE = re.compile(r"(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )$")
_BEGINNING = re.compile(r"(?:^|\n)\[?$")
_LONGEST_BEFORE = 12
"""Characters of a date, and the blank after it."""


class PollingDetector:
    """Looks at each call once, in call order."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[CallSignature]] = {}

    def forget(self) -> None:
        self._seen.clear()

    def is_polling(self, call: CallSignature) -> bool:
        """Whether a count in its result has moved one way through the latest results of this call, whatever its numbers."""
        key = call.name, call.shape
        seen = self._seen.pop(key, None) or deque(maxlen=_RESULTS_COMPARED)
        self._seen[key] = seen
        if len(self._seen) > _CALLS_IN_TURN:
            del self._seen[next(iter(self._seen))]
        seen.append(call)
        if len(seen) < _RESULTS_COMPARED or not all(vary_only(other, call) for other in seen):
            return False
        varying = [lines for lines in zip(*(each.rows for each in seen), strict=True) if len(set(lines)) > 1]
        times: list[list[tuple[int, bool]]] = []
        for lines in zip(*varying, strict=True):
            times.append(list(islice((time for line in lines for time in _times(line)), _MOST_TIMES + 1)))
            if len(times[-1]) > _MOST_TIMES or len(times[-1]) != len(times[0]):
                return False
        return any(map(_moves, zip(*times, strict=True)))


def _moves(places: Sequence[tuple[int, bool]]) -> bool:
    """One place of each result: its whole seconds (or the date), and whether it may be the time of day, which rises by itself."""
    steps = [after - before for (before, _), (after, _) in pairwise(places)]
    falls = all(step <= 0 for step in steps)
    rises = all(step >= 0 for step in steps) and not any(is_time_of_day for _, is_time_of_day in places)
    return (falls or rises) and sum(step != 0 for step in steps) >= _MOVES


def _times(text: str) -> list[tuple[int, bool]]:
    """Each date, time and duration of a line, "2 min 30 s" as one."""
    found: list[tuple[int, bool]] = []
    end = -1
    for match in VOLATILE.finditer(text):
        if match["clock"]:
            found.append((_clock(match["clock"]), _is_time_of_day(text, match)))
        elif match["duration"]:
            seconds = _duration(match["duration"])
            if end >= 0 and not text[end : match.start()].strip(" "):
                seconds += found.pop()[0]
            found.append((seconds, False))
        elif match["date"]:
            found.append((int(match["date"].replace("-", "")), False))
        end = match.end() if match["duration"] else -1
    return found


def _duration(text: str) -> int:
    match = _DURATION.match(text)
    return int(float(match["number"]) * _SECONDS[match["unit"].lower()]) if match else 0


def _clock(text: str) -> int:
    """Of h:mm:ss in seconds; of two numbers, whatever they are, in the smaller unit."""
    whole = 0
    for part in re.split(r"[.,]", text)[0].split(":"):
        whole = whole * 60 + int(part)
    return whole


def _is_time_of_day(text: str, match: re.Match[str]) -> bool:
    """With seconds, after a date or where a line begins; what has lasted for less than an hour begins with a zero."""
    before = text[max(0, match.start() - _LONGEST_BEFORE) : match.start()]
    hour, *others = match["clock"].split(":")
    return len(others) > 1 and bool(_DATE.search(before) or (int(hour) and _BEGINNING.search(before)))


_FEWEST_LINES = 8
"""From here on lines are compared, below it pieces of five characters."""
_PIECE = 5
_MOST_COMPARED = 4_000
"""Characters that pieces are made of, and that an embedding is asked for; half of them from the end."""


class Similarity(Protocol):
    def of(self, a: str, b: str) -> float:
        """0 for texts that share nothing, 1 for equal ones. Called seldom: after what is cheap to see has been seen."""
        ...


class ShingleSimilarity:
    """The share of distinct pieces that both texts have (Jaccard): linear in their length, blind to their order."""

    def of(self, a: str, b: str) -> float:
        if a == b:
            return 1.0
        first, second = a.splitlines(), b.splitlines()
        if min(len(first), len(second)) >= _FEWEST_LINES:
            return _shared(set(first), set(second))
        return _shared(_pieces(a), _pieces(b))


class EmbeddingSimilarity:
    """The cosine of two embeddings, each asked for once while `size` texts are remembered.

    `embed` is given at most 4,000 characters and is called in the agent's loop: it must be quick. Where it fails, or
    gives vectors that cannot be compared, the local measure answers.
    """

    def __init__(self, embed: Callable[[str], Sequence[float]], size: int = 256) -> None:
        self._embed = lru_cache(maxsize=size)(embed)
        self._local = ShingleSimilarity()

    def of(self, a: str, b: str) -> float:
        if a == b:
            return 1.0
        try:
            return _cosine(self._embed(_cut(a)), self._embed(_cut(b)))
        except Exception:  # noqa: BLE001  (a service of the person's own: no turn ends for it)
            return self._local.of(a, b)


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    cosine = product / lengths
    if not math.isfinite(cosine):
        raise ValueError("the vectors have no direction")
    return min(1.0, max(0.0, cosine))


def _shared(a: set[str], b: set[str]) -> float:
    return len(a & b) / max(1, len(a | b))


def _pieces(text: str) -> set[str]:
    text = _cut(text)
    return {text[start : start + _PIECE] for start in range(max(1, len(text) - _PIECE + 1))}


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_COMPARED else f"{text[: _MOST_COMPARED // 2]}{text[-_MOST_COMPARED // 2 :]}"


_SUBSTANCE = 200
"""A shorter result ("Edited a.py: 1 line.") is like many others and says nothing, unless the call failed."""
_NEWS = 3
"""Lines that the result before did not have: with more of them a call brings something."""
SIMILARITY_THRESHOLD = 0.8
"""How alike two results are, from 0 to 1, from which two calls whose arguments differ only in numbers (`sed -n 1,10p`,
`sed -n 2,11p`) are near repeats. Where the arguments differ in words (`grep foo`, `grep 'foo\\b'`) results must be closer, at a
quarter of the distance from 1, and the arguments at half of it: with 0.8, at least 0.95 and 0.9."""


def alike_by(
    similarity: Similarity, threshold: float = SIMILARITY_THRESHOLD
) -> Callable[[CallSignature, CallSignature], bool]:
    """The same call is alike when its results differ in times and the like alone, and these do not count: that is polling.

    Calls about different files or addresses never are, however alike these: that is going through them one by one. Nor
    are those with other numbers that have an outcome each: the same lines, but for a few that say something else.
    """

    def alike(before: CallSignature, now: CallSignature) -> bool:
        if before.name != now.name or now.counts:
            return False
        if before.arguments == now.arguments:
            return before.key == now.key or vary_only(before, now)
        if not (_says_something(before) and _says_something(now)) or len(now.lines - before.lines) > _NEWS:
            return False
        if before.subjects != now.subjects or _has_another_outcome(before, now):
            return False
        least = threshold
        if before.shape != now.shape:
            least = 1 - (1 - threshold) / 4
            if similarity.of(before.arguments, now.arguments) < 1 - (1 - threshold) / 2:
                return False
        return similarity.of(before.result, now.result) >= least

    return alike


def _says_something(call: CallSignature) -> bool:
    return not call.ok or len(call.result) >= _SUBSTANCE


def _has_another_outcome(before: CallSignature, now: CallSignature) -> bool:
    """Lines in the places of others: a window that moves over a file shows the same ones, elsewhere."""
    if not now.ok or len(before.rows) != len(now.rows):
        return False
    rows = list(islice(differing(before, now), _NEWS + 1))
    return len(rows) <= _NEWS and any(
        before.without_own_numbers(before.steady(row)) != now.without_own_numbers(now.steady(row)) for row in rows
    )
