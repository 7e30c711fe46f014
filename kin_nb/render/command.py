"""The displays of a command's result, the same for a cell and for a terminal."""

from __future__ import annotations

from kin_nb.core.commands import CLEARED, CommandResult, Table
from kin_nb.core.records import ClearRecord, CompactRecord, SessionRecord, UndoRecord
from kin_nb.render.card import BLUE, Output, card, render_notice
from kin_nb.render.changes import render_changes, render_undo
from kin_nb.render.text import Attribute, Html, clean, escape, fill, indent, join, one_line
from kin_nb.render.turn import render_compaction, render_turn


def render_result(result: CommandResult, session: str = "") -> list[Output]:
    """Return the outputs of a command; empty if it shows nothing. `session`: the session's name, if there are several."""
    outputs = []
    if result.table is not None:
        outputs.append(render_table(result.title, result.table, result.lines))
    elif result.title:
        outputs.append(render_notice(result.title, result.lines))
    if result.changes:
        outputs.append(render_changes(result.changes, turn=result.turn))
    return outputs + (render_record(result.record, session) if result.record is not None else [])


def render_record(record: SessionRecord, session: str = "") -> list[Output]:
    """Return the outputs of the cell that made `record`: live, saved and played. `session`: as for `render_result`."""
    match record:
        case UndoRecord():
            return [render_undo(record, session)]
        case CompactRecord():
            return [render_compaction(record.compaction, turn=0, step=0)]
        case ClearRecord():
            return [render_notice(CLEARED, [])]
    return render_turn(record)


def render_table(title: str, table: Table, lines: tuple[str, ...] = ()) -> Output:
    """Return a table. text/plain has aligned columns."""
    title, rest = one_line(title), [clean(line) for line in lines]
    rows = [tuple(map(one_line, row)) for row in (table.headings, *table.rows)]
    html = fill(
        "<b>{}</b>\n<table>\n{}\n</table>\n{}",
        escape(title),
        _table_html(rows, table.right),
        join("<br>\n", map(escape, rest)),
    )
    text = [title, *map(indent, _table_text(rows, table.right)), *map(indent, rest)]
    return Output.of(card(html, label="info", color=BLUE), "\n".join(text), kind="notice", level="info")


_LEFT, _RIGHT = Attribute("left"), Attribute("right")


def _table_html(rows: list[tuple[str, ...]], right: frozenset[int]) -> Html:
    aligned = [_RIGHT if column in right else _LEFT for column in range(len(rows[0]))]
    headings, *others = (zip(map(escape, row), aligned, strict=True) for row in rows)
    head = [fill('<th scope="col" style="text-align:{side}">{}</th>', cell, side=side) for cell, side in headings]
    lines = [[fill('<td style="text-align:{side}">{}</td>', cell, side=side) for cell, side in row] for row in others]
    return join("\n", (fill("<tr>{}</tr>", join("", line)) for line in (head, *lines)))


def _table_text(rows: list[tuple[str, ...]], right: frozenset[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
