"""Texts cut to fit where they are shown."""

from __future__ import annotations


def one_line(text: str, limit: int) -> str:
    """The text's words on one line of at most `limit` characters and an ellipsis, with nothing a terminal obeys."""
    words = "".join(c for c in " ".join(text[: 10 * limit].split()) if c.isprintable())
    return words if len(words) <= limit else f"{words[:limit].rstrip()}…"
