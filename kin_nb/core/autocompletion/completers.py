"""Completion at the cursor of a prompt, `@path` and `/command`, and the matching of a few typed letters with names.

The matching is our own: existing libraries measure the distance between two words (rapidfuzz, compiled) or rank for other
purposes. None returns the positions, and none ranks a file's name above its folders.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from itertools import pairwise
from typing import NamedTuple, Protocol

from kin_nb.core.autocompletion.file_indexer import FileIndexer
from kin_nb.core.autocompletion.path_prompt import typed_mention, written_mention
from kin_nb.core.ignore_rules import Entry

_COMMAND = re.compile(r"\s*(/[^\s/]*)")


@dataclass(frozen=True)
class Completion:
    """`text` replaces what is between `start` (an index of the prompt) and the cursor; `display` is for the list."""

    text: str
    display: str
    description: str
    start: int


class Completer(Protocol):
    def complete(self, text: str, cursor: int) -> list[Completion]:
        """Return the completions, the best first; empty when there are none here. `cursor` is an index of `text`."""
        ...


class PathCompleter:
    """Complete `@src/ma` with files and folders of the workspace; a folder ends in `/`, so that typing can continue.

    Directly after `@` or a `/`: the entries of that folder; else matches anywhere. Names with a leading dot appear only when
    a dot was typed.
    """

    def __init__(self, indexer: FileIndexer, *, most: int = 50) -> None:
        self._indexer = indexer
        self._most = most
        self._entries: Sequence[Entry] = ()
        self._paths: list[str] = []
        self._plain_paths: list[str] = []

    def complete(self, text: str, cursor: int) -> list[Completion]:
        start, typed = typed_mention(text[:cursor]) or (0, "/")
        if typed.startswith("/"):  # nothing of the workspace
            return []
        typed = typed.removeprefix("./")
        folder, _, name = typed.rpartition("/")
        paths = self._matching(typed) if name else self._in_folder(folder)
        completions = []
        for path in paths:
            written = written_mention(path)
            if written is not None:
                is_folder = path.endswith("/")
                written = written.removesuffix('"') if is_folder else written  # typing continues inside the quotes
                completions.append(Completion(written, path, "folder" if is_folder else "", start))
        return completions

    def _in_folder(self, folder: str) -> list[str]:
        shown = [entry for entry in self._indexer.children(folder) if not _is_hidden(entry.path[len(folder) :])]
        shown.sort(key=lambda entry: (not entry.is_dir, entry.path.lower()))
        return [_path(entry) for entry in shown[: self._most]]

    def _matching(self, typed: str) -> list[str]:
        entries = self._indexer.entries()
        if entries is not self._entries:  # the same object until something changes
            self._entries = entries
            self._paths = [_path(entry) for entry in entries]
            self._plain_paths = [path for path in self._paths if not _is_hidden(path)]
        paths = self._paths if _is_hidden(typed) else self._plain_paths
        return [match.text for match in best_matches(typed, paths, self._most)]


class CommandCompleter:
    """Complete `/comm` at the start of a prompt. `commands`: names without the `/`, and what each does."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands

    def complete(self, text: str, cursor: int) -> list[Completion]:
        match = _COMMAND.fullmatch(text[:cursor])
        if match is None:
            return []
        found = best_matches(match[1][1:], sorted(self._commands), len(self._commands))
        return [
            Completion(f"/{name}", f"/{name}", self._commands[name], match.start(1)) for name in (m.text for m in found)
        ]


class MultiCompleter:
    """Ask several completers; the first with a completion wins."""

    def __init__(self, completers: Iterable[Completer]) -> None:
        self._completers = tuple(completers)

    def complete(self, text: str, cursor: int) -> list[Completion]:
        answers = (completer.complete(text, cursor) for completer in self._completers)
        return next(filter(None, answers), [])


def _path(entry: Entry) -> str:
    return f"{entry.path}/" if entry.is_dir else entry.path


def _is_hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path


_MOST = 999  # gaps and lengths count up to this


class FuzzyMatch(NamedTuple):
    """`positions`: where the pattern's letters are in the text, rising. A greater score is a better match."""

    score: int
    text: str
    positions: tuple[int, ...]


class _Fit(IntEnum):
    """How the letters lie in the text, worst first."""

    SCATTERED = auto()
    TOGETHER = auto()
    AT_WORDS = auto()  # each run of letters starts a word: `pp` and `prompt` in `path_prompt`
    PREFIX = auto()  # of the name; a folder's start is a word like any other
    WHOLE = auto()


_RANK = 1_000_000
_UNBEATEN = (_Fit.AT_WORDS * 2 + 1) * 2 * _RANK - _RANK  # at words of the name: no other way to lie there is better


def fuzzy_match(pattern: str, text: str) -> FuzzyMatch | None:
    """The letters of `pattern` in `text`, in order and in any case; None when they are not all there.

    `text` is a name, or a path with `/` (a `/` at its end is part of the last name). Better is, in this order: how the
    letters lie (`_Fit`); in the name rather than in its folders; in the very case, when the pattern has a capital;
    fewer gaps; the shorter text.
    """
    if not pattern:
        return FuzzyMatch(-min(len(text), _MOST), text, ())
    wanted, lowered = _lower(pattern), _lower(text)
    name = lowered.rfind("/", 0, len(lowered) - 1) + 1
    best: FuzzyMatch | None = None
    for start in (name, 0) if name else (0,):
        for positions in _alignments(wanted, lowered, text, start):
            match = FuzzyMatch(_score(pattern, text, positions, name), text, positions)
            if match.score > _UNBEATEN:
                return match
            best = max(best, match) if best else match
    return best


def best_matches(pattern: str, texts: Iterable[str], most: int) -> list[FuzzyMatch]:
    """At most `most` of the texts that match, the best first; equals in alphabetical order."""
    # a quick look first; `(?>...)`: the first place of a letter will do, no other is tried
    letters = re.compile("".join(f"(?>.*?{re.escape(letter)})" for letter in pattern), re.IGNORECASE | re.DOTALL)
    matches = (fuzzy_match(pattern, text) for text in texts if letters.match(text))
    return heapq.nsmallest(most, (match for match in matches if match), key=lambda match: (-match.score, match.text))


def _lower(text: str) -> str:
    """Letter by letter where needed: the lower case of some letters is two, and positions must stay."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(letter.lower()[0] for letter in text)


def _alignments(wanted: str, lowered: str, text: str, start: int) -> Iterator[tuple[int, ...]]:
    """Places for the letters from `start` on: together, and apart with as many as possible at the starts of words."""
    together = lowered.find(wanted, start)
    if together >= 0:
        at_word = together
        while at_word >= 0 and not _starts_word(text, at_word):
            at_word = lowered.find(wanted, at_word + 1)
        best = together if at_word < 0 else at_word
        yield tuple(range(best, best + len(wanted)))
    latest = _latest_places(wanted, lowered, start)
    if latest:
        yield _apart(wanted, lowered, text, start, latest)


def _latest_places(wanted: str, lowered: str, start: int) -> list[int]:
    """For each letter the last place that leaves room for those after it; empty when they don't fit."""
    places = []
    end = len(lowered)
    for letter in reversed(wanted):
        end = lowered.rfind(letter, start, end)
        if end < 0:
            return []
        places.append(end)
    return places[::-1]


def _apart(wanted: str, lowered: str, text: str, start: int, latest: list[int]) -> tuple[int, ...]:
    """Each letter right after the one before it, else at the next word, else at the next place there is."""
    places: list[int] = []
    at = start
    for letter, last in zip(wanted, latest, strict=True):
        place = at if places and lowered[at] == letter else lowered.find(letter, at, last + 1)
        if not places or place != at:
            word = place
            while word >= 0 and not _starts_word(text, word):
                word = lowered.find(letter, word + 1, last + 1)
            place = word if word >= 0 else place
        places.append(place)
        at = place + 1
    return tuple(places)


def _starts_word(text: str, place: int) -> bool:
    before = text[place - 1] if place else ""
    return not before.isalnum() or (before.islower() and text[place].isupper())


def _score(pattern: str, text: str, positions: tuple[int, ...], name: int) -> int:
    gaps = positions[-1] - positions[0] + 1 - len(positions)
    same_case = pattern != pattern.lower() and all(
        text[place] == letter for place, letter in zip(positions, pattern, strict=True)
    )
    rank = (_fit(text, positions, name) * 2 + (positions[0] >= name)) * 2 + same_case
    return rank * _RANK - min(gaps, _MOST) * 1_000 - min(len(text), _MOST)


def _fit(text: str, positions: tuple[int, ...], name: int) -> _Fit:
    runs = [positions[0], *(place for before, place in pairwise(positions) if place != before + 1)]
    if len(runs) == 1 and positions[0] == name:
        return _Fit.WHOLE if positions[-1] + 1 == len(text.removesuffix("/")) else _Fit.PREFIX
    if all(_starts_word(text, place) for place in runs):
        return _Fit.AT_WORDS
    return _Fit.TOGETHER if len(runs) == 1 else _Fit.SCATTERED
