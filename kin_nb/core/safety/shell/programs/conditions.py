"""What `test` and `[` ask. Numbers must be spelled out: elsewhere a shell computes them, and runs what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.syntax import shown
from kin_nb.core.safety.shell.words import Word

_OF_FILES = frozenset(("-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h", "-p", "-S", "-b", "-c", "-O", "-G"))
_OF_TEXTS = frozenset(("-n", "-z"))
_TEXTS = frozenset(("=", "==", "!="))
_FILES = frozenset(("-nt", "-ot", "-ef"))
_NUMBERS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_JOINS = frozenset(("-a", "-o"))
_INTEGER = re.compile(r"-?\d{1,18}")


def files_asked_about(words: Sequence[Word]) -> Iterator[str]:
    """The files that it asks about. Raises UnprovenError for whatever is no plain comparison."""
    rest = list(words)
    while rest:
        while rest and rest[0].raw == "!":
            rest.pop(0)
        size = _term_size(rest)
        yield from _term(rest[:size])
        rest = rest[size:]
        if rest and rest.pop(0).raw not in _JOINS:
            raise _unknown(words)


def _term_size(words: Sequence[Word]) -> int:
    if len(words) >= 3 and words[1].raw in _TEXTS | _FILES | _NUMBERS:  # noqa: PLR2004  (`a = b`)
        return 3
    return 2 if words and words[0].raw in _OF_FILES | _OF_TEXTS else 1


def _term(words: Sequence[Word]) -> Iterator[str]:
    if len(words) == 3:  # noqa: PLR2004  (`a = b`)
        first, operator, second = words
        if operator.raw in _FILES:
            yield from (_known(first), _known(second))
        elif operator.raw in _NUMBERS and not (
            _INTEGER.fullmatch(_known(first)) and _INTEGER.fullmatch(_known(second))
        ):
            raise _unknown(words)
    elif len(words) == 2 and words[0].raw in _OF_FILES:  # noqa: PLR2004  (`-f x`)
        yield _known(words[1])
    elif not (len(words) == 2 and words[0].raw in _OF_TEXTS):  # noqa: PLR2004  (`-n x`)
        raise _unknown(words)


def _known(word: Word) -> str:
    if not word.known:
        raise UnprovenError(f"{shown(word.raw)} is known only when it runs")
    return word.text


def _unknown(words: Sequence[Word]) -> UnprovenError:
    return UnprovenError(f"the condition {shown(' '.join(word.raw for word in words))} is not one that is known")
