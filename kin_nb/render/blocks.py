"""Markdown that is still being written: where it can be cut so that what stands before stays as it is drawn."""

from __future__ import annotations

import re

from kin_nb.render.markdown import parser

_LONG_FENCE = 800
"""Characters of a code block that is still open, from which on it is cut between its lines."""
_LINE = re.compile(r"\r\n?|\n")


def cut(source: str) -> tuple[int, str]:
    """(characters of `source` that are complete blocks, what to put before the rest so that it is read the same).

    The second is "" but in the middle of a long code block: there it is the line that opens one.
    """
    blocks = [token for token in parser().parse(source) if token.level == 0 and token.map and token.nesting >= 0]
    if not blocks:
        return 0, ""
    last = blocks[-1]
    starts = [0, *(found.end() for found in _LINE.finditer(source))]
    begin = starts[last.map[0]] if last.map else 0
    if last.type == "fence" and len(source) - begin > _LONG_FENCE:
        end = max(start for start in starts)
        opener = f"{last.markup}{last.info}\n"
        if end > begin + len(opener) and not _is_closed(source[begin:], last.markup):
            return end, opener
    return begin, ""


def _is_closed(block: str, fence: str) -> bool:
    lines = _LINE.split(block.rstrip())
    return len(lines) > 1 and lines[-1].strip().startswith(fence)
