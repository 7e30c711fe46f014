"""The record in a cell's output, for a notebook that only a front end saves (docs/reference/format.md).

A kernel cannot write cells' metadata. So the last output of a turn, and the card of an undo, carry the record in theirs. Run
All that stops clears the outputs below it, and a front end saves that: so one output keeps a copy of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kin_nb.core.records import SessionRecord
from kin_nb.replay.errors import LaterFormatError, RecordingError
from kin_nb.replay.format.notebook_reader import describe_other_format, reject_unknown_fields
from kin_nb.replay.format.record_codec import RecordReader, encode_record
from kin_nb.replay.recording import FORMAT, SessionMeta

RECORD_KEY = "kin_recording"
BACKUP_KEY = "kin_kept"
MAX_CHARACTERS = 2_000_000
"""Of one record: a front end keeps all outputs in memory. What is larger is in the log alone."""
MAX_BACKUP_CHARACTERS = 8_000_000
"""Of all that is kept."""


def output_metadata(record: SessionRecord, meta: SessionMeta) -> dict[str, Any]:
    """Return metadata for the output that holds `record`; empty for a record of more than MAX_CHARACTERS."""
    blobs: dict[str, Any] = {}
    made = encode_record(record, blobs)
    size = sum(len(str(text)) for text in blobs.values()) + len(str(made))
    if size > MAX_CHARACTERS:
        return {}
    return {RECORD_KEY: {"session": meta.model_dump(exclude_defaults=True), "record": made, "blobs": blobs}}


def raw_output_records(cell: Any) -> Iterator[dict[str, Any]]:
    """Yield the records in the outputs of `cell`, unverified."""
    for output in cell.get("outputs", []):
        metadata = output.get("metadata")
        found = metadata.get(RECORD_KEY) if isinstance(metadata, dict) else None
        if isinstance(found, dict):
            yield found


@dataclass(frozen=True)
class OutputRecord:
    """A verified record (JSON text where a later version wrote it), the session that it names, and the raw JSON."""

    record: SessionRecord | str
    meta: SessionMeta
    raw: dict[str, Any]


def read_output_record(cell: int, raw: dict[str, Any]) -> OutputRecord:
    """Verify `raw`, a record in an output of cell number `cell`, from 1. Raises RecordingError, which names the change."""
    where = f"cell {cell}, {RECORD_KEY}.session"
    try:
        meta = SessionMeta.model_validate(raw.get("session"))
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordingError(f"{'.'.join(map(str, [where, *first['loc']]))}: {first['msg']}.") from None
    if meta.format != FORMAT:
        raise LaterFormatError(f"cell {cell}: {describe_other_format(meta.format, meta.kin_nb)}")
    reject_unknown_fields(where, raw.get("session"), meta, meta.kin_nb)
    blobs = raw.get("blobs")
    reader = RecordReader(meta, blobs if isinstance(blobs, dict) else {})
    return OutputRecord(reader.read(cell, raw.get("record")), meta, raw)


def backup_metadata(nb: Any, before: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the backup for an output of `nb`: the records in outputs, in the earlier backup, and those known `before`.

    A record as it is in `nb` counts.
    """
    kept = [
        {"cell": cell["id"], "carried": each}
        for cell in nb["cells"]
        if isinstance(cell.get("id"), str)
        for each in raw_output_records(cell)
    ]
    ids = {cell["id"] for cell in nb["cells"] if isinstance(cell.get("id"), str)}
    kept += [each for each in backed_up_records(nb) if each["cell"] in ids and each not in kept]
    known = {(each["cell"], record_id(each["carried"])) for each in kept}
    for each in before:
        name = (each["cell"], record_id(each["carried"]))
        if name not in known:
            known.add(name)
            kept.append(each)
    return {BACKUP_KEY: kept} if 0 < sum(len(str(each)) for each in kept) <= MAX_BACKUP_CHARACTERS else {}


def record_id(carried: dict[str, Any]) -> str:
    """Return the id of a record, unverified; for a record without one, all of its text."""
    record = carried.get("record")
    named = record.get("id") if isinstance(record, dict) else None
    return named if isinstance(named, str) else str(record)


def backed_up_records(nb: Any) -> Iterator[dict[str, Any]]:
    """Yield the records that outputs hold as a backup, unverified: only their shape is checked."""
    for cell in nb["cells"]:
        for output in cell.get("outputs", []):
            metadata = output.get("metadata")
            kept = metadata.get(BACKUP_KEY) if isinstance(metadata, dict) else None
            for each in kept if isinstance(kept, list) else []:
                if (
                    isinstance(each, dict)
                    and isinstance(each.get("cell"), str)
                    and isinstance(each.get("carried"), dict)
                ):
                    yield each
