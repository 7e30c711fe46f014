"""Markdown for a terminal: long lines of prose are broken between words, everything else stays as it is."""

from __future__ import annotations

import re

_QUOTE = re.compile(r" {0,3}> ?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_OR_TABLE = re.compile(r" {4}|\t|\s*\|")
_MARK = re.compile(r"(?P<indent>\s*)(?P<item>(?:[-*+]|\d{1,9}[.)])\s+)?")
"""What a line of prose begins with."""
_DEEPEST = 20


def wrapped(text: str, width: int) -> str:
    """Lines of at most `width` characters where words allow it; the next lines of a list's item stand under its text."""
    lines: list[str] = []
    fence, inside = "", 0
    for line in text.split("\n"):
        begin, depth = _quotation(line, inside if fence else _DEEPEST)
        if depth < inside:
            fence = ""  # code ends with the quotation that it stands in
        found = _FENCE.match(line, begin)
        if found and (not fence or found[1].startswith(fence)):
            fence, inside = "" if fence else found[1], depth
        lines += [line] if found or fence or len(line) <= width else _broken(line[:begin], line[begin:], width)
    return "\n".join(lines)


def _quotation(line: str, most: int) -> tuple[int, int]:
    """(where its text begins, how many marks stand before that), at most `most` of them: in code, more are code."""
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
