"""Names and messages from a workspace, so that none of them can write lines of its own into the system prompt."""

from __future__ import annotations


def one_line(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters: what can't be printed as an escape, and no closing tag."""
    printed = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    shown = printed.replace("</", "< /")
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
