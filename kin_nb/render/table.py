"""What a command shows: a title, a table, lines."""

from __future__ import annotations

from kin_nb.core.commands import Table
from kin_nb.render.output import BLUE, Output, frame
from kin_nb.render.text import clean, escape, indent, one_line


def render_table(title: str, table: Table, lines: tuple[str, ...] = ()) -> Output:
    """text/plain has columns of blanks, and fits a terminal as far as the cells do."""
    title, rest = one_line(title), [clean(line) for line in lines]
    rows = [tuple(map(one_line, row)) for row in (table.headings, *table.rows)]
    html = f"<b>{escape(title)}</b>\n<table>\n{_html(rows, table.right)}\n</table>\n" + "<br>\n".join(map(escape, rest))
    text = [title, *map(indent, _text(rows, table.right)), *map(indent, rest)]
    return Output.of(frame(html, label="info", color=BLUE), "\n".join(text), kind="notice", level="info")


def _html(rows: list[tuple[str, ...]], right: frozenset[int]) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag, scope = ("td", "") if number else ("th", ' scope="col"')
        aligned = (f' style="text-align:{"right" if column in right else "left"}"' for column in range(len(row)))
        cells = (f"<{tag}{scope}{style}>{escape(cell)}</{tag}>" for cell, style in zip(row, aligned, strict=True))
        lines.append("".join(cells))
    return "\n".join(f"<tr>{line}</tr>" for line in lines)


def _text(rows: list[tuple[str, ...]], right: frozenset[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
