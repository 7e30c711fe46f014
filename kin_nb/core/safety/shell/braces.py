"""The words that a word with braces stands for (`{a,b}`, `{1..3}`), as bash makes them before anything else."""

from __future__ import annotations

import re
from itertools import product

_MOST_WORDS = 200
_MOST_BRACES = 20
"""In a word that is expanded. A word that stands for more words, or has more braces, stays as it is written."""
_PIECE = re.compile(
    r"""\\.|'[^']*'|\$'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|\$\{(?:[^{}]|\{[^{}]*\})*\}|\$\([^()]*\)|.""",
    re.DOTALL,
)
"""What stays together: quotations, substitutions; else one character."""
_NUMBERS = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", re.ASCII)
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?", re.ASCII)

_Pieces = list[str]


def expanded(word: str) -> list[str]:
    """As written, with all quotes; the word alone where braces do not make several of it."""
    if "{" not in word or not ("," in word or ".." in word) or word.count("{") > _MOST_BRACES:
        return [word]
    found = _alternatives(_PIECE.findall(word))
    words = ["".join(pieces) for pieces in found if pieces]
    return words if words and len(words) <= _MOST_WORDS else [word]


def _alternatives(pieces: _Pieces) -> list[_Pieces]:
    """More than _MOST_WORDS when there are too many."""
    for begin, piece in enumerate(pieces):
        if piece != "{" or pieces[begin - 1 : begin] == ["$"]:
            continue
        end, parts = _parts(pieces, begin)
        if not parts:
            continue
        inner = [each for part in parts for each in _alternatives(part)]
        after = _alternatives(pieces[end + 1 :])
        if len(inner) * len(after) > _MOST_WORDS:
            return [pieces] * (_MOST_WORDS + 1)
        return [[*pieces[:begin], *each, *rest] for each, rest in product(inner, after)]
    return [pieces]


def _parts(pieces: _Pieces, begin: int) -> tuple[int, list[_Pieces]]:
    """Where the brace is closed, and what it holds; nothing where it stands for itself."""
    parts: list[_Pieces] = [[]]
    depth = 0
    for at in range(begin + 1, len(pieces)):
        piece = pieces[at]
        if piece == "}" and not depth:
            return at, parts if len(parts) > 1 else _sequence("".join(parts[0]))
        if piece == "," and not depth:
            parts.append([])
            continue
        depth += (piece == "{") - (piece == "}")
        parts[-1].append(piece)
    return begin, []


def _sequence(text: str) -> list[_Pieces]:
    """`1..3`, `a..e`, with a step or none."""
    if found := _NUMBERS.fullmatch(text):
        width = max(map(len, found.groups()[:2])) if any(re.match(r"-?0\d", each) for each in found.groups()[:2]) else 0
        return [[f"{value:0{width}d}"] for value in _steps(int(found[1]), int(found[2]), found[3])]
    if found := _LETTERS.fullmatch(text):
        return [[chr(value)] for value in _steps(ord(found[1]), ord(found[2]), found[3])]
    return []


def _steps(first: int, last: int, step: str | None) -> range:
    """Cut where there are too many for a word."""
    by = abs(int(step or 1)) or 1
    found = range(first, last + 1, by) if first <= last else range(first, last - 1, -by)
    return found[: _MOST_WORDS + 1]
