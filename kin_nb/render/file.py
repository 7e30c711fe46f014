"""One file that was changed: what happened to it, then its diff."""

from __future__ import annotations

from typing import Protocol

from kin_nb.core.session.records import FileChange
from kin_nb.render.diff import diff_text, render_diff, without_header
from kin_nb.render.part import Part
from kin_nb.render.text import escape, one_line

DIFF_LIMIT = 10_000
"""Most characters of one file's diff on a card."""

NO_TEXT = "binary, too large, or secret: not shown"
LEFT_OUT = "left out when it was saved"


class Draw(Protocol):
    """`render_diff`, or `side_by_side`."""

    def __call__(self, patch: str, *, path: str = "", limit: int | None = None, most: int | None = None) -> str: ...


def file_part(
    file: FileChange,
    subject: str = "",
    why_no_lines: str = NO_TEXT,
    *,
    limit: int = DIFF_LIMIT,
    most: int | None = None,
    draw: Draw = render_diff,
) -> Part:
    """Named above its hunks, unless `subject`, which the card's first line says, is its name and it was only changed.

    `why_no_lines`: what a change without a patch says.
    """
    verb = "New file" if file.before is None else "Deleted" if file.after is None else "Changed"
    path = one_line(file.path, 400)
    if not file.patch:
        note = why_no_lines if file.patch is None else "empty"
        return Part(f"{verb} <code>{escape(path)}</code> ({note})<br>\n", f"{verb} {path} ({note})")
    patch = without_header(file.patch)
    html, text = draw(patch, path=file.path, limit=limit, most=most), diff_text(patch, limit=limit, most=most)
    if verb == "Changed" and path == subject:
        return Part(html, text)
    return Part(f"{verb} <code>{escape(path)}</code>\n{html}", f"{verb} {path}\n{text}")
