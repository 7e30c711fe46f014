"""What a turn changed in files, for whoever wants to compare: before and after beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.session.records import FileChange
from kin_nb.render.file import DIFF_LIMIT, file_part
from kin_nb.render.output import BLUE, Output, frame
from kin_nb.render.part import Part
from kin_nb.render.side_by_side import side_by_side
from kin_nb.render.text import count, indent

_MOST_FILES = 50
_MOST = 100_000
"""Characters of all the diffs together; each has its share."""
_MOST_LINES = 1_000
"""Likewise: a row of the table takes some 300 bytes, however short its lines are."""


def render_changes(files: Sequence[FileChange], *, turn: int) -> Output:
    """In the order in which they were changed; a file that was changed twice is there twice. text/plain is unified."""
    changes, shown = count(len(files), "change"), files[:_MOST_FILES]
    head = f"Turn {turn} made {changes} to files" if len(files) > 1 else f"Turn {turn} changed a file"
    limit = min(DIFF_LIMIT, _MOST // len(shown))
    most = _MOST_LINES // len(shown)
    parts = [file_part(file, limit=limit, most=most, draw=side_by_side) for file in shown]
    if len(files) > len(shown):
        more = f"and {count(len(files) - len(shown), 'more change')}: %kin last shows them"
        parts.append(Part(f"{more}\n", more))
    html = frame(f"<b>{head}</b>", "".join(part.html for part in parts), label="changes", color=BLUE)
    return Output.of(html, "\n".join([head, *(indent(part.text) for part in parts)]), kind="changes", turn=turn)
