"""What a command gave, as displays: the same for a cell and for a terminal."""

from __future__ import annotations

from kin_nb.core.commands import CommandResult
from kin_nb.core.session.records import RecordedCompaction, TurnRecord, UndoRecord
from kin_nb.render.changes import render_changes
from kin_nb.render.compaction import render_compaction
from kin_nb.render.notice import render_notice
from kin_nb.render.output import Output
from kin_nb.render.table import render_table
from kin_nb.render.turn import render_turn
from kin_nb.render.undo import render_undo


def render_result(result: CommandResult, session: str = "") -> list[Output]:
    """Empty for a result that shows nothing. `session`: the name of the one that was commanded, where it is not the only one."""
    outputs = []
    if result.table is not None:
        outputs.append(render_table(result.title, result.table, result.lines))
    elif result.title:
        outputs.append(render_notice(result.title, result.lines))
    if result.changes:
        outputs.append(render_changes(result.changes, turn=result.turn))
    match result.record:
        case UndoRecord():
            outputs.append(render_undo(result.record, session))
        case RecordedCompaction():
            outputs.append(render_compaction(result.record, turn=result.turn, step=0))
        case TurnRecord():
            outputs += render_turn(result.record)
    return outputs
