"""Short forms of texts and lists, for messages and summaries."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], limit: int) -> str:
    """The first `limit` names, and the number of the others: "a, b, c and 5 more"."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 file", "1,234 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shorten(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters. Of a cut text, the last one is an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def first_line(text: str) -> str:
    """The first line that is not empty, without spaces around it; "" if there is none."""
    return text.strip().partition("\n")[0].rstrip()


def last_line(text: str) -> str:
    """The last line that is not empty, without spaces around it; "" if there is none."""
    return text.strip().rpartition("\n")[2].lstrip()


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
    return shorten(shown, limit)
