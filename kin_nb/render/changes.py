"""Changes to files as cards: those of one call, of a turn, and of an undo or redo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kin_nb.core.records import FileChange, UndoRecord
from kin_nb.core.text import counted
from kin_nb.render.card import BLUE, CardPart, Output, card
from kin_nb.render.diff import changed_lines, diff_text, render_diff, side_by_side, without_header
from kin_nb.render.text import Html, clean, escape, fill, indent, inline_code_html, join, one_line

DIFF_LIMIT = 10_000
"""Most characters of one file's diff on a card."""

NO_TEXT = "binary, too large, or secret: not shown"
LEFT_OUT = "removed when the notebook was saved"


class Draw(Protocol):
    """The function that draws a diff: `render_diff` or `side_by_side`."""

    def __call__(self, patch: str, *, path: str = "", limit: int | None = None, most: int | None = None) -> Html: ...


def file_part(
    file: FileChange,
    subject: str = "",
    why_no_lines: str = NO_TEXT,
    *,
    limit: int = DIFF_LIMIT,
    most: int | None = None,
    draw: Draw = render_diff,
) -> CardPart:
    """Return a changed file: its name, unless the card's first line, `subject`, has it, and its hunks.

    `why_no_lines`: what a change without a patch says.
    """
    verb = "New file" if file.before is None else "Deleted" if file.after is None else "Changed"
    path = one_line(file.path, 400)
    if not file.patch:
        note = why_no_lines if file.patch is None else "empty"
        drawn = fill("{} <code>{}</code> ({})<br>\n", escape(verb), escape(path), escape(note))
        return CardPart(drawn, f"{verb} {path} ({note})")
    patch = without_header(file.patch)
    html, text = draw(patch, path=file.path, limit=limit, most=most), diff_text(patch, limit=limit, most=most)
    if verb == "Changed" and path == subject:
        return CardPart(html, text)
    return CardPart(fill("{} <code>{}</code>\n{}", escape(verb), escape(path), html), f"{verb} {path}\n{text}")


_MOST_FILES = 50
_MOST_CHARACTERS = 100_000
"""Characters of all the diffs together; each has its share."""
_MOST_LINES = 1_000
"""Lines of all the diffs together: a row of the table takes some 300 bytes, however short its lines are."""


def render_changes(files: Sequence[FileChange], *, turn: int) -> Output:
    """Return the card of file changes, in order; a file that was changed twice appears twice. text/plain is a unified diff."""
    changes, shown = counted(len(files), "change"), files[:_MOST_FILES]
    head = f"Turn {turn} made {changes} to files" if len(files) > 1 else f"Turn {turn} changed a file"
    limit = min(DIFF_LIMIT, _MOST_CHARACTERS // len(shown))
    most = _MOST_LINES // len(shown)
    parts = [file_part(file, limit=limit, most=most, draw=side_by_side) for file in shown]
    if len(files) > len(shown):
        more = f"and {counted(len(files) - len(shown), 'more change')}: %kin last shows them"
        parts.append(CardPart(fill("{}\n", escape(more)), more))
    html = card(fill("<b>{}</b>", escape(head)), join("", (part.html for part in parts)), label="changes", color=BLUE)
    return Output.of(html, "\n".join([head, *(indent(part.text) for part in parts)]), kind="changes", turn=turn)


def render_undo(undo: UndoRecord, session: str = "") -> Output:
    """Return the card of an undo or redo (`metadata["kin"]["kind"]`). `session`: for the command that reverts it."""
    title = _title(undo)
    lines = [_undone_file(change) for change in undo.files[:_MOST_FILES]]
    if len(undo.files) > _MOST_FILES:
        lines.append(f"and {counted(len(undo.files) - _MOST_FILES, 'more file')}")
    lines += [f"left as it is: {one_line(kept.path, 400)}: {one_line(kept.why, 400)}" for kept in undo.kept]
    lines += [
        f"undo does not restore: {clean(sentence).strip().removeprefix('not covered: ')}" for sentence in undo.uncovered
    ]
    if not (undo.files or undo.kept):
        lines.insert(0, "no files changed")
    lines += [f"warning: {clean(warning).strip()}" for warning in undo.warnings]
    kin = f"%kin --session {session}" if session else "%kin"
    lines.append(f"To restore it: `{kin} redo`" if undo.type == "undo" else f"To undo it again: `{kin} undo`")
    html = join("<br>\n", [fill("<b>{}</b>", escape(title)), *map(escape, lines[:-1]), inline_code_html(lines[-1])])
    text = "\n".join([title, *map(indent, lines)])
    return Output.of(card(html, label=undo.type, color=BLUE), text, kind=undo.type)


def _title(undo: UndoRecord) -> str:
    turns = f"turn{'' if len(undo.turns) == 1 else 's'} {', '.join(map(str, undo.turns))}"
    if undo.type == "redo":
        return f"Restored {turns}"
    if undo.head is not None and undo.head.id == undo.turn_ids[0]:
        return f"Undid {turns}, back to before step {undo.head.step} of turn {undo.turns[0]}"
    return f"Undid {turns}"


def _undone_file(change: FileChange) -> str:
    path = one_line(change.path, 400)
    what = "removed" if change.after is None else "created again" if change.before is None else "restored"
    if not change.patch:
        return f"{what}: {path}"
    added, removed = changed_lines(without_header(change.patch))
    return f"{what}: {path} +{added} -{removed}"
