"""Texts on one line, cut to fit where they are shown."""

from __future__ import annotations


def one_line(text: str, limit: int) -> str:
    """The text's words on one line of at most `limit` characters and an ellipsis, with nothing a terminal obeys."""
    words = "".join(c for c in " ".join(text[: 10 * limit].split()) if c.isprintable())
    return words if len(words) <= limit else f"{words[:limit].rstrip()}…"


def escaped_line(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters: what cannot be printed as an escape, and no closing tag.

    For names and messages from a workspace, so that none of them can write lines of its own into the system prompt.
    """
    printed = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    shown = printed.replace("</", "< /")
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
