"""The card of an undo or redo: what was taken or given back, which files came back, which did not, and the way back."""

from __future__ import annotations

from kin_nb.core.session.records import FileChange, UndoRecord
from kin_nb.render.diff import changed_lines, without_header
from kin_nb.render.output import BLUE, Output, frame
from kin_nb.render.text import clean, count, escape, indent, one_line

_MOST_FILES = 50


def render_undo(undo: UndoRecord, session: str = "") -> Output:
    """`metadata["kin"]["kind"]` is undo or redo. `session`: what the way back must name, "" for the notebook's own."""
    title = _title(undo)
    lines = [_file(change) for change in undo.files[:_MOST_FILES]]
    if len(undo.files) > _MOST_FILES:
        lines.append(f"and {count(len(undo.files) - _MOST_FILES, 'more file')}")
    lines += [f"left as it is: {one_line(kept.path, 400)}: {one_line(kept.why, 400)}" for kept in undo.kept]
    lines += [f"not covered: {clean(sentence).strip().removeprefix('not covered: ')}" for sentence in undo.uncovered]
    if not (undo.files or undo.kept):
        lines.insert(0, "no file had changed")
    lines += [f"warning: {clean(warning).strip()}" for warning in undo.warnings]
    kin = f"%kin --session {session}" if session else "%kin"
    lines.append(f"{kin} redo gives it back." if undo.type == "undo" else f"{kin} undo takes it back again.")
    html = "<br>\n".join([f"<b>{escape(title)}</b>", *map(escape, lines)])
    text = "\n".join([title, *map(indent, lines)])
    return Output.of(frame(html, label=undo.type, color=BLUE), text, kind=undo.type)


def _title(undo: UndoRecord) -> str:
    turns = f"turn{'' if len(undo.turns) == 1 else 's'} {', '.join(map(str, undo.turns))}"
    if undo.type == "redo":
        return f"Gave back {turns}"
    if undo.to.step > 0:
        return f"Took back {turns}, to before step {undo.to.step} of turn {undo.to.turn}"
    return f"Took back {turns}"


def _file(change: FileChange) -> str:
    path = one_line(change.path, 400)
    what = "removed" if change.after is None else "brought back" if change.before is None else "restored"
    if not change.patch:
        return f"{what}: {path}"
    added, removed = changed_lines(without_header(change.patch))
    return f"{what}: {path} +{added} -{removed}"
