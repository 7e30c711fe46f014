"""A patch as a table of two columns, for whoever wants to compare before they answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, zip_longest

from kin_nb.render.diff import HUNK, STYLES, DiffLine, cut, diff_lines
from kin_nb.render.highlight import palette
from kin_nb.render.text import WRAPPED, escape

_CELL = "text-align:left;vertical-align:top;padding:0 4px"
_TEXT = f"{WRAPPED};margin:0;background:none"
_COLUMNS = (("Line", ""), ("Before", ";width:50%"), ("Line", ""), ("After", ";width:50%"))
_HEAD = "".join(f'<th scope="col" style="{_CELL}{width}">{name}</th>' for name, width in _COLUMNS)


def side_by_side(patch: str, path: str = "", limit: int | None = None, most: int | None = None) -> str:
    """HTML of `patch`: line numbers of each side, the lines with their literal + and -.

    `path`: the file, by whose name its lines are highlighted; for a patch without header lines. `limit`, `most`: as render_diff.
    """
    shown, note = cut(patch, limit, most)
    rows = "\n".join(_rows(diff_lines(shown, path)))
    head = f'<table style="table-layout:auto;width:100%{palette(rows)}">\n<thead><tr>{_HEAD}</tr></thead>'
    return f"{head}\n<tbody>\n{rows}\n</tbody>\n</table>{escape(note)}\n"


_ROW = '<tr style="background:none">'
"""JupyterLab's stripes would be lost among the colours."""


def _rows(lines: list[DiffLine]) -> Iterator[str]:
    """Changed lines that follow each other stand beside each other, the removed ones on the left."""
    old = new = 0
    for changed, group in groupby(lines, key=lambda line: line.mark in STYLES):
        if changed:
            run = list(group)
            removed, added = ([line for line in run if line.mark == mark] for mark in "-+")
            for number, (left, right) in enumerate(zip_longest(removed, added)):
                yield f"{_ROW}{_cells(left, old + number)}{_cells(right, new + number)}</tr>"
            old, new = old + len(removed), new + len(added)
            continue
        for line in group:
            if line.mark:
                yield f"{_ROW}{_cells(line, old)}{_cells(line, new)}</tr>"
                old, new = old + 1, new + 1
            else:
                if hunk := HUNK.match(line.text):
                    old, new = int(hunk["old"]), int(hunk["new"])
                yield f'{_ROW}<td colspan="4" style="{_CELL}"><pre style="{_TEXT}"><code>{line.html}</code></pre></td></tr>'


def _cells(line: DiffLine | None, number: int) -> str:
    """A line's number and its text; both empty where the other side has more lines."""
    if line is None:
        return "<td></td><td></td>"
    style = ";".join(filter(None, [_CELL, STYLES.get(line.mark)]))
    return (
        f'<td style="{_CELL}">{number}</td><td style="{style}"><pre style="{_TEXT}"><code>{line.html}</code></pre></td>'
    )
