"""Markdown that is still being written: where it can be cut so that what stands before stays as it is drawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kin_nb.render.markdown import parser

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINE = re.compile(r"\r\n?|\n")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\s*\n\s*")
_OPEN = re.compile(r"[*`\[~$]|(?<!\w)_")
"""What stands in a text as it is because its other half is still to come, or because it means itself."""
_TRIES = 5
"""Ends of sentences that are looked at, the newest first."""


def complete(source: str) -> int:
    """Characters of `source` that are complete blocks: all but the last one, which may go on."""
    last, starts = _last_block(source), _starts(source)
    return starts[_line(last[0])] if last else 0


def cut(source: str, enough: int) -> tuple[int, str]:
    """(where, what to put before the rest so that it is read the same); (0, "") where that were less than `enough`.

    Between blocks. In one that is long already, between lines of code (the line that opens it goes before the rest), rows of
    a table (its head does), items of a list, blocks of a quotation; as a last resort, after a sentence.
    """
    if len(source) < enough:  # on most draws: nothing is parsed
        return 0, ""
    last, starts = _last_block(source), _starts(source)
    begin = starts[_line(last[0])] if last else 0
    if begin >= enough or not last:
        return begin, ""
    end, opener = _inside(source, begin, last, starts)
    return (end, opener) if end >= max(enough, begin + len(opener) + 1) else (0, "")


def _inside(source: str, begin: int, block: list[Token], starts: list[int]) -> tuple[int, str]:
    first = block[0]
    if first.type == "paragraph_open":
        return _sentence(source, begin), ""
    if first.type == "fence":
        return (0, "") if _is_closed(source[begin:], first.markup) else (starts[-1], f"{first.markup}{first.info}\n")
    whole_lines = len(starts) - 1  # what the last line is, its end will say
    last = max((line for line in _parts(block) if line < whole_lines), default=None)
    opener = source[begin : starts[_line(first) + 2]] if first.type == "table_open" and last else ""
    return (starts[last], opener) if last else (0, "")


def _parts(block: list[Token]) -> list[int]:
    """The lines from which on a table, a list or a quotation can be read alone."""
    first = block[0]
    if first.type == "table_open":
        rows = [token for token in block if token.type == "tr_open"]
        return [_line(row) for row in rows[2:]]  # its head and the first row stay together
    parts = [token for token in block if token.level == 1 and token.map and token.nesting >= 0]
    if first.type == "ordered_list_open":  # "1. 1. 1." would be counted anew
        begin = int(first.attrs.get("start", 1))
        parts = [item for number, item in enumerate(parts, begin) if item.info == str(number)]
    return [_line(part) for part in parts]


def _sentence(source: str, begin: int) -> int:
    """The end of one behind which nothing is read otherwise: an emphasis may go over several."""
    kinds, whole, _ = _read(source[begin:])
    ends = [found.end() for found in _SENTENCE.finditer(source, begin)][-_TRIES:]
    for end in reversed(ends):
        (_, head, text), (kinds_of_rest, rest, _) = _read(source[begin:end]), _read(source[end:])
        if kinds_of_rest == kinds and head + rest == whole and not _OPEN.search(text):
            return end
    return 0


def _read(source: str) -> tuple[list[str], str, str]:
    """The kinds of its tokens, what is read without blanks, and what of that is no code."""
    tokens = parser().parse(source)
    inline = [part for token in tokens for part in token.children or []]
    words = "".join(part.content for part in inline if part.type in {"text", "code_inline"})
    return (
        [token.type for token in tokens],
        "".join(words.split()),
        " ".join(p.content for p in inline if p.type == "text"),
    )


def _last_block(source: str) -> list[Token]:
    """The tokens of the last one, the outermost first."""
    tokens = parser().parse(source)
    begins = [index for index, token in enumerate(tokens) if token.level == 0 and token.map and token.nesting >= 0]
    return tokens[begins[-1] :] if begins else []


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _starts(source: str) -> list[int]:
    """Where each line begins."""
    return [0, *(found.end() for found in _LINE.finditer(source))]


def _is_closed(block: str, fence: str) -> bool:
    lines = _LINE.split(block.rstrip())
    return len(lines) > 1 and lines[-1].strip().startswith(fence)
