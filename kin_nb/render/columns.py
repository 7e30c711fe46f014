"""Text in a terminal's columns: a wide character takes two, a combining one none."""

from __future__ import annotations

import unicodedata


def columns(text: str) -> int:
    """How many columns `text`, one line, takes in a terminal."""
    return sum(map(_columns, text))


def fit(text: str, width: int) -> str:
    """`text`, cut with an ellipsis where it takes more than `width` columns (at least 1)."""
    if columns(text) <= width:
        return text
    taken = 0
    for n, char in enumerate(text):
        taken += _columns(char)
        if taken > width - 1:
            return f"{text[:n]}…"
    return text


def pad(text: str, width: int) -> str:
    """`text` cut or filled up to exactly `width` columns."""
    shown = fit(text, width)
    return shown + " " * (width - columns(shown))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
