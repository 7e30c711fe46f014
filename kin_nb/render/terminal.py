"""Text for a terminal: columns (a wide character takes two, a combining one none), and Markdown with its lines broken."""

from __future__ import annotations

import re
import unicodedata


def columns(text: str) -> int:
    """Return the number of terminal columns that `text`, one line, takes."""
    return sum(map(_columns, text))


def fit(text: str, width: int) -> str:
    """Cut `text` with an ellipsis if it takes more than `width` columns (at least 1)."""
    if columns(text) <= width:
        return text
    taken = 0
    for n, char in enumerate(text):
        taken += _columns(char)
        if taken > width - 1:
            return f"{text[:n]}…"
    return text


def pad(text: str, width: int) -> str:
    """Cut or pad `text` to exactly `width` columns."""
    shown = fit(text, width)
    return shown + " " * (width - columns(shown))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


_QUOTE = re.compile(r" {0,3}> ?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_OR_TABLE = re.compile(r" {4}|\t|\s*\|")
_MARK = re.compile(r"(?P<indent>\s*)(?P<item>(?:[-*+]|\d{1,9}[.)])\s+)?")
"""What a line of prose begins with."""
_DEEPEST = 20


def wrapped(text: str, width: int) -> str:
    """Wrap Markdown to `width` characters between words. The lines of a list item are indented under its text."""
    lines: list[str] = []
    fence, inside = "", 0
    for line in text.split("\n"):
        begin, depth = _quotation(line, inside if fence else _DEEPEST)
        if depth < inside:
            fence = ""  # code ends with the quotation around it
        found = _FENCE.match(line, begin)
        if found and (not fence or found[1].startswith(fence)):
            fence, inside = "" if fence else found[1], depth
        lines += [line] if found or fence or len(line) <= width else _broken(line[:begin], line[begin:], width)
    return "\n".join(lines)


def _quotation(line: str, most: int) -> tuple[int, int]:
    """(start of the text, number of quotation marks before it). At most `most` marks: in code, more are part of the code."""
    begin = depth = 0
    while depth < most and (found := _QUOTE.match(line, begin)):
        begin, depth = found.end(), depth + 1
    return begin, depth


def _broken(quote: str, text: str, width: int) -> list[str]:
    import textwrap  # noqa: PLC0415  (only terminals need it)

    mark = _MARK.match(text)
    indent, item = (mark["indent"], mark["item"] or "") if mark else ("", "")
    if _CODE_OR_TABLE.match(text) and not item:
        return [quote + text]
    return textwrap.wrap(
        text[len(indent + item) :],
        width,
        initial_indent=quote + indent + item,
        subsequent_indent=quote + indent + " " * len(item),
        break_long_words=False,
        break_on_hyphens=False,
    )
