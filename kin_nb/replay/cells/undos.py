"""Cells that undo and redo: what they ask for, and which recorded undo is what."""

from __future__ import annotations

import re
from typing import Any

from kin_nb.core.session.records import UndoRecord
from kin_nb.replay.cells.matching import Undoing, undoing
from kin_nb.replay.cells.placing import is_kin_kernel

_COMMAND = re.compile(r"\s*(?P<how>%kin[ \t]+|%%kin[ \t]*\n\s*/|/)(?P<type>undo|redo)(?:[ \t]+(?P<turns>\d{1,9}))?\s*")


def undo_source(undo: UndoRecord) -> str:
    return "%kin redo" if undo.type == "redo" else f"%kin undo {undoing(undo).turns}"


def undoes(nb: Any, cell: Any) -> Undoing | None:
    """What a cell asks for that does nothing but undo or redo; None for every other cell."""
    found = _COMMAND.fullmatch(cell["source"]) if cell["cell_type"] == "code" else None
    if found is None or (found["how"] == "/" and not is_kin_kernel(nb)):
        return None
    return Undoing("redo") if found["type"] == "redo" else Undoing("undo", int(found["turns"] or 1))
