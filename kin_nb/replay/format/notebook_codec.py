"""Notebook <-> Recording: the metadata of docs/reference/format.md, verified on every read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kin_nb.core.records import SessionRecord
from kin_nb.replay.cell_keys import conversation_key, session_name
from kin_nb.replay.errors import LaterFormatError, NoRecordingError, RecordingError
from kin_nb.replay.format.notebook_reader import (
    describe_merge_conflict,
    describe_other_format,
    reject_unknown_fields,
    shortened,
    unknown_field_error,
)
from kin_nb.replay.format.output_records import backed_up_records, raw_output_records
from kin_nb.replay.format.record_codec import RecordReader, encode_record, encode_value
from kin_nb.replay.format.storage import SIDECAR_KEY as SIDECAR
from kin_nb.replay.format.storage import claimed_sidecar, stored_texts
from kin_nb.replay.recording import (
    FORMAT,
    SHORT_SHA,
    Recording,
    SessionMeta,
    digest_of,
    record_label,
    unknown_record_id,
    unknown_record_sha,
)

USER_CELLS_KEY = "cells"
"""Which texts saving brought into the notebook's cells (saving/own_cells.py). No hash covers it."""
RECORDS_KEY = "records"
"""In the notebook's metadata: the short hash of each record that was saved, by its id. In a cell's: its records."""
_REPLAY = re.compile(r"^%kin[ \t]+replay[ \t]+(?P<session>[A-Za-z0-9-]{1,64})@", re.MULTILINE)
SESSION_PLACEHOLDER = "SESSION"
"""In advice, where no session is known."""
_KEYS = frozenset(
    {
        *("format", "session", "digest", "kin_nb", "model", "workspace", "system_prompt", "tools", "blobs"),
        *(RECORDS_KEY, USER_CELLS_KEY, SIDECAR),
    }
)
"""What this version writes; anything else is a later one's, and stays."""


@dataclass(frozen=True)
class SavedRecording:
    """A verified recording. `records_by_cell`: by the index of a cell, the records in its metadata, in order.

    `unknown_records`: the same of records of a later version, as JSON texts.
    """

    recording: Recording
    records_by_cell: Mapping[int, Sequence[SessionRecord]]
    unknown_records: Mapping[int, Sequence[str]]


def read_recording(nb: Any) -> Recording:
    """Read and verify the recording in `nb` (as load_notebook returns it, or a NotebookNode).

    Raises NoRecordingError when there is none, RecordingError when anything was edited, is missing or was written by a
    later format: the text names the cell (counted from 1 among all cells), turn, step and, where it shows, the field.
    A cell that was deleted, and one that was pasted, are not errors.
    """
    return read_saved(nb).recording


def read_saved(nb: Any) -> SavedRecording:
    """Read the recording and the cells that hold it. Raises as read_recording."""
    kin = _checked(nb)
    meta = _meta(kin)
    later = next(iter(_later(kin)), "")
    try:
        saved = read_cells(nb, meta)
    except LaterFormatError:
        raise
    except RecordingError:
        if later:
            raise unknown_field_error("notebook metadata", later, meta.kin_nb) from None
        raise
    listed = kin.get(RECORDS_KEY)
    if not isinstance(listed, dict) or digest_of(meta, listed) != kin.get("digest"):
        if later:  # which may count in the digest there
            raise unknown_field_error("notebook metadata", later, meta.kin_nb)
        raise _error(
            meta,
            "notebook metadata",
            f"the list of records, or model, workspace, kin_nb, system_prompt or tools, was changed: the digest "
            f"{shortened(kin.get('digest'))[:12]} does not match",
        )
    found = saved.recording.shas
    if listed and not found and _was_cleaned(nb):
        raise NoRecordingError(_no_recording(nb))
    for index, known_as, what in _ids(saved):
        if listed.get(known_as, found[known_as]) != found[known_as]:
            raise _error(meta, f"cell {index + 1}, {what}", "this is not the record that was saved with this id")
    apart = listed if listed != found else None  # nothing was deleted or pasted: equal to what was written
    recording = Recording(
        meta, saved.recording.records, saved.recording.unknown_records, apart, saved.recording.session_names
    )
    return SavedRecording(recording, saved.records_by_cell, saved.unknown_records)


def _ids(saved: SavedRecording) -> Iterator[tuple[int, str, str]]:
    """Yield (index of the cell, id, label) for each record in a cell."""
    for index, records in saved.records_by_cell.items():
        yield from ((index, record.id, record_label(record)) for record in records)
    for index, texts in saved.unknown_records.items():
        for other in map(json.loads, texts):
            yield index, unknown_record_id(other), _label_of_other(other)


def _label_of_other(other: dict[str, Any]) -> str:
    return f"record {shortened(repr(other['type']))}"


def write_recording(nb: Any, held: Mapping[int, Sequence[SessionRecord]], recording: Recording) -> None:
    """Write `recording` into `nb`, each record into the cells that `records_by_cell` names, in place of an earlier one.

    Raises RecordingError for a record that no cell holds.
    """
    placed = {record.id for records in held.values() for record in records}
    missing = [record_label(record) for record in recording.records if record.id not in placed]
    if missing:
        raise RecordingError(f"No cell of this notebook has a place for {', '.join(missing)}.\nSave to a new file.")
    others: dict[int, list[str]] = {}
    for text in recording.unknown_records:
        others.setdefault(_home(nb, unknown_record_id(json.loads(text)), held), []).append(text)
    for index, cell in enumerate(nb["cells"]):
        cell["metadata"].pop("kin", None)
        blobs: dict[str, Any] = {}
        records = [encode_record(record, blobs) for record in held.get(index, ())]
        records += [_other_json(json.loads(text), blobs) for text in others.get(index, ())]
        if records:
            cell["metadata"]["kin"] = {RECORDS_KEY: records, "blobs": blobs} if blobs else {RECORDS_KEY: records}
    before = nb["metadata"].get("kin")
    later = _later(before) if isinstance(before, dict) else {}
    nb["metadata"]["kin"] = {**later, **_meta_json(recording)}


def raw_records(nb: Any) -> Iterator[tuple[int, Any]]:
    """Yield each record in the metadata of a cell, unverified, with the cell's index."""
    for index, cell in enumerate(nb["cells"]):
        kin = cell["metadata"].get("kin")
        records = kin.get(RECORDS_KEY) if isinstance(kin, dict) else None
        for raw in records if isinstance(records, list) else []:
            yield index, raw


def _was_cleaned(nb: Any) -> bool:
    """Whether prompt cells exist and none has a record, in metadata or outputs: a tool removed them.

    Else the cells that were saved were deleted, and those that are here were answered since.
    """
    carries = any(any(raw_output_records(cell)) for cell in nb["cells"]) or any(backed_up_records(nb))
    return not carries and any(conversation_key(nb, cell) for cell in nb["cells"])


def claimed_identity(nb: Any) -> tuple[str, str]:
    """Return (session, digest) from the notebook's metadata, unverified; "" if missing."""
    kin = nb["metadata"].get("kin")
    claims = [kin.get(key) if isinstance(kin, dict) else None for key in ("session", "digest")]
    session, digest = (claim if isinstance(claim, str) else "" for claim in claims)
    return session, digest


def replayed_session(nb: Any) -> str:
    """Return the session that a `%kin replay` cell names; "" without such a cell."""
    found = (_REPLAY.search(cell["source"]) for cell in nb["cells"])
    return next((match["session"] for match in found if match), "")


def first_differing_field(one: SessionRecord, other: SessionRecord) -> str:
    """Return the first field that differs in two records of one id, dotted, items from 1; "type" for different types."""
    if type(one) is not type(other):
        return "type"
    return _differing(one.model_dump(), other.model_dump())


def _differing(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(key, one.get(key), other.get(key)) for key in {**one, **other}]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = [(str(n), *pair) for n, pair in enumerate(zip(one, other, strict=True), 1)]
    else:
        return ""
    key, x, y = next((key, x, y) for key, x, y in pairs if x != y)
    return ".".join(filter(None, [str(key), _differing(x, y)]))


def _checked(nb: Any) -> dict[str, Any]:
    """Return `kin` from the notebook's metadata. Raises RecordingError if it is not of this format."""
    conflict = describe_merge_conflict(nb)
    if conflict:
        raise RecordingError(conflict)
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict):
        raise NoRecordingError(_no_recording(nb))
    if not isinstance(kin.get("format"), int | float):
        raise NoRecordingError(
            "The notebook's `kin` metadata has no format number, so it is not a recording.\n"
            f"Recreate the recording from the session log: kin-nb save {_named(nb)}"
        )
    if kin["format"] != FORMAT:
        raise LaterFormatError(describe_other_format(kin["format"], kin.get("kin_nb")))
    return kin


def read_cells(nb: Any, meta: SessionMeta) -> SavedRecording:
    """Read the records of cells: verify each one, and that records of one id are equal."""
    common, sidecar = stored_texts(nb["metadata"].get("kin")), claimed_sidecar(nb)
    held: dict[int, list[SessionRecord]] = {}
    others: dict[int, list[str]] = {}
    first: dict[str, tuple[int, SessionRecord]] = {}
    texts: dict[str, tuple[int, str]] = {}
    session_names: dict[str, str] = {}
    for index, cell in enumerate(nb["cells"]):
        kin = cell["metadata"].get("kin")
        if kin is None:
            continue
        if not isinstance(kin, dict) or not isinstance(kin.get(RECORDS_KEY), list):
            raise _error(meta, f"cell {index + 1}", "its `kin` metadata has no list of records")
        reader = RecordReader(meta, {**common, **stored_texts(kin)}, sidecar)
        for raw in kin[RECORDS_KEY]:
            record = reader.read(index + 1, raw)
            if isinstance(record, str):
                others.setdefault(index, []).append(record)
                other = json.loads(record)
                there, text = texts.setdefault(unknown_record_id(other), (index, record))
                if text != record:
                    what = f"cell {there + 1} has another version of it"
                    raise _error(meta, f"cell {index + 1}, {_label_of_other(other)}", what)
                continue
            before, known = first.setdefault(record.id, (index, record))
            if known != record:
                what = (
                    f"cell {before + 1} has another version of it; field {first_differing_field(known, record)} differs"
                )
                raise _error(meta, f"cell {index + 1}, {record_label(record)}", what)
            held.setdefault(index, []).append(record)
            name = session_name(cell)
            if name:
                session_names[record.id] = name
    records = sorted((record for _, record in first.values()), key=lambda record: record.seq)
    unknown = tuple(text for _, text in texts.values())
    return SavedRecording(Recording(meta, tuple(records), unknown, session_names=session_names), held, others)


def _error(meta: SessionMeta, where: str, what: str) -> RecordingError:
    return RecordReader(meta, {}).error(where, what)


def _no_recording(nb: Any) -> str:
    named = _named(nb)
    if named == SESSION_PLACEHOLDER and any(any(raw_output_records(cell)) for cell in nb["cells"]):
        return (
            "This notebook has no saved recording, only answers in its outputs.\n"
            "Make a session notebook of it: kin-nb save NOTEBOOK.ipynb OUT.ipynb"
        )
    return (
        "This notebook has no recording in its metadata: another tool may have removed it.\n"
        f"Recreate it from the session log: kin-nb save {named}"
    )


def _named(nb: Any) -> str:
    return replayed_session(nb) or SESSION_PLACEHOLDER


def _meta(kin: dict[str, Any]) -> SessionMeta:
    fields = {**kin, "system_prompt_sha": kin.get("system_prompt", ""), "tools_sha": kin.get("tools", "")}
    try:
        meta = SessionMeta.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordingError(
            f"notebook metadata, kin.{where}: {first['msg']}.\nRecreate it from the session log: kin-nb save SESSION"
        ) from error
    reject_unknown_fields("notebook metadata", {"workspace": kin.get("workspace")}, meta, meta.kin_nb)
    return meta


def _later(kin: dict[str, Any]) -> dict[str, Any]:
    """What stays as it is."""
    return {key: kin[key] for key in kin if key not in _KEYS}


def _meta_json(recording: Recording) -> dict[str, Any]:
    meta = recording.meta
    return {
        "format": meta.format,
        "session": meta.session,
        "digest": digest_of(meta, recording.shas),
        "kin_nb": meta.kin_nb,
        "model": meta.model,
        "workspace": meta.workspace.model_dump(exclude={"branch"} if meta.workspace.branch is None else None),
        "system_prompt": meta.system_prompt_sha,
        "tools": meta.tools_sha,
        RECORDS_KEY: dict(sorted(recording.shas.items())),
    }


def _other_json(other: dict[str, Any], blobs: dict[str, Any]) -> dict[str, Any]:
    return {**encode_value(other, blobs), "sha": unknown_record_sha(other)}


def _home(nb: Any, known_as: str, held: Mapping[int, Sequence[SessionRecord]]) -> int:
    """Return the cell for a later version's record: its own, else that of the last record, else the last cell."""
    for index, raw in raw_records(nb):
        value = {key: item for key, item in raw.items() if key != "sha"} if isinstance(raw, dict) else {}
        if value and known_as in (value.get("id"), str(raw.get("sha"))[:SHORT_SHA]):
            return index
    return max(held, default=len(nb["cells"]) - 1)
