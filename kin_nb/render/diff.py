"""Unified diffs as HTML and text: literal + and - in front, colour only on top of that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from kin_nb.render.text import count, escape, literal

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_STYLES = {"+": "background:#2ea04333", "-": "background:#f8514933"}


def render_diff(patch: str, *, limit: int | None = None) -> str:
    """`patch` in one <pre>. With `limit`, whole lines up to that many characters, then how many were left out."""
    shown, note = _cut(patch, limit)
    pieces = []
    for mark, lines in groupby(_marked(shown), key=lambda pair: pair[0]):
        text = escape(literal("\n".join(line for _, line in lines)))
        style = _STYLES.get(mark)
        pieces.append(f'<span style="{style}">{text}</span>' if style else text)
    # Wrapped, so that no blanks push the end of a line out of sight of whoever approves it.
    body = "\n".join(pieces) + escape(note)
    return f'<pre style="white-space:pre-wrap;margin:4px 0">{body}</pre>\n'


def diff_text(patch: str, *, limit: int | None = None) -> str:
    """The same for a terminal, without colour."""
    shown, note = _cut(patch, limit)
    return literal(shown) + note


def changed_lines(patch: str) -> tuple[int, int]:
    """How many lines `patch` adds and removes."""
    marks = [mark for mark, _ in _marked(patch)]
    return marks.count("+"), marks.count("-")


def without_header(patch: str) -> str:
    """`patch` from its first hunk on, for cards that name the file themselves."""
    start = 0 if patch.startswith("@@") else patch.find("\n@@") + 1
    return patch[start:]


def _cut(patch: str, limit: int | None) -> tuple[str, str]:
    patch = patch.removesuffix("\n")
    if limit is None or len(patch) <= limit:
        return patch, ""
    shown = patch[: max(patch.rfind("\n", 0, limit), 0)] or patch[:limit]
    more = patch[len(shown) :].count("\n") or 1
    return shown, f"\n… {count(more, 'more line')} of this change; the session log has all of it"


def _marked(patch: str) -> Iterator[tuple[str, str]]:
    """Each line with "+", "-" or "" for the rest. Hunk lengths decide, so that a removed "-- x" is no file header."""
    old = new = 0
    for line in patch.removesuffix("\n").split("\n"):  # not splitlines: a form feed belongs to its line
        mark = ""
        if old <= 0 and new <= 0:
            if hunk := _HUNK.match(line):
                old, new = (int(length) if length else 1 for length in hunk.groups())
        elif line.startswith("+"):
            mark, new = "+", new - 1
        elif line.startswith("-"):
            mark, old = "-", old - 1
        elif not line.startswith("\\"):  # "\ No newline at end of file" is no line of either side
            old, new = old - 1, new - 1
        yield mark, line
