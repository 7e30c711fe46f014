"""Markdown for a terminal: long lines of prose are broken between words, everything else stays as it is."""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_OR_TABLE = re.compile(r" {4}|\t|\s*\|")
_MARK = re.compile(r"(?P<quote>(?:\s*>)*\s*)(?P<item>(?:[-*+]|\d{1,9}[.)])\s+)?")
"""What a line of prose begins with."""


def wrapped(text: str, width: int) -> str:
    """Lines of at most `width` characters where words allow it; the next lines of a list's item stand under its text."""
    lines, fence = [], ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found and (not fence or found[1].startswith(fence)):
            fence = "" if fence else found[1]
        lines += [line] if found or fence or len(line) <= width else _broken(line, width)
    return "\n".join(lines)


def _broken(line: str, width: int) -> list[str]:
    import textwrap  # noqa: PLC0415  (only terminals need it)

    mark = _MARK.match(line)
    quote, item = (mark["quote"], mark["item"] or "") if mark else ("", "")
    if _CODE_OR_TABLE.match(line) and not item:
        return [line]
    return textwrap.wrap(
        line[len(quote + item) :],
        width,
        initial_indent=quote + item,
        subsequent_indent=quote + " " * len(item),
        break_long_words=False,
        break_on_hyphens=False,
    )
