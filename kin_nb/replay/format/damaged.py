"""A recording that does not read as a whole: which of its records still do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.errors import LaterFormatError, RecordingError
from kin_nb.replay.format.reading import Reading
from kin_nb.replay.format.sidecar import named_sidecar, texts_in
from kin_nb.replay.recording import SessionMeta


@dataclass
class StillRead:
    """`undos`: each with its number. `unread`: each record that is damaged or misses a text, with its cell (from 1)."""

    turns: list[TurnRecord] = field(default_factory=list)
    undos: list[tuple[int, UndoRecord]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    unread: list[tuple[int, Any]] = field(default_factory=list)


def still_read(nb: Any, meta: SessionMeta) -> StillRead:
    """Each record by itself, so of two that differ both. Raises LaterFormatError for what a later version wrote."""
    found = StillRead()
    blobs, sidecar = texts_in(nb["metadata"].get("kin")), named_sidecar(nb)
    for number, cell in enumerate(nb["cells"], 1):
        records = cell["metadata"].get("kin", [])
        for raw in records if isinstance(records, list) else [records]:
            reading = Reading(meta, blobs, sidecar)
            try:
                reading.add(number, raw)
            except LaterFormatError:
                raise
            except RecordingError:
                found.unread.append((number, raw))
            found.turns += [read.record for read in reading.turns.values()]
            found.undos += reading.undos.items()
            found.others += reading.others.values()
    return found
