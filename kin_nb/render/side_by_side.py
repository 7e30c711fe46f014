"""A patch as a table of two columns, for whoever wants to compare before they answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, zip_longest

from kin_nb.render.diff import HUNK, STYLES, DiffLine, diff_lines

_HEAD = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in ("Line", "Before", "Line", "After"))
_CELL = "text-align:left;vertical-align:top"
_TEXT = "white-space:pre-wrap;margin:0"


def side_by_side(patch: str, path: str = "") -> str:
    """HTML of all of `patch`: line numbers of each side, the lines with their literal + and -.

    `path`: the file, by whose name its lines are highlighted; for a patch without header lines.
    """
    rows = "\n".join(_rows(diff_lines(patch.removesuffix("\n"), path)))
    return f"<table>\n<thead><tr>{_HEAD}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n"


def _rows(lines: list[DiffLine]) -> Iterator[str]:
    """Changed lines that follow each other stand beside each other, the removed ones on the left."""
    old = new = 0
    for changed, group in groupby(lines, key=lambda line: line.mark in STYLES):
        if changed:
            run = list(group)
            removed, added = ([line for line in run if line.mark == mark] for mark in "-+")
            for number, (left, right) in enumerate(zip_longest(removed, added)):
                yield f"<tr>{_cells(left, old + number)}{_cells(right, new + number)}</tr>"
            old, new = old + len(removed), new + len(added)
            continue
        for line in group:
            if line.mark:
                yield f"<tr>{_cells(line, old)}{_cells(line, new)}</tr>"
                old, new = old + 1, new + 1
            else:
                if hunk := HUNK.match(line.text):
                    old, new = int(hunk["old"]), int(hunk["new"])
                yield f'<tr><td colspan="4" style="{_CELL}"><pre style="{_TEXT}">{line.html}</pre></td></tr>'


def _cells(line: DiffLine | None, number: int) -> str:
    """A line's number and its text; both empty where the other side has more lines."""
    if line is None:
        return "<td></td><td></td>"
    style = ";".join(filter(None, [_CELL, STYLES.get(line.mark)]))
    return f'<td style="{_CELL}">{number}</td><td style="{style}"><pre style="{_TEXT}">{line.html}</pre></td>'
