"""Notebook <-> Recording: the metadata of docs/session-notebook.md, verified on every read."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError

from kin_nb.core.session.records import TurnRecord, UndoRecord, canonical_json, sha256
from kin_nb.replay.cells.placing import place_turns
from kin_nb.replay.cells.undos import undo_source, undoes
from kin_nb.replay.errors import LaterFormatError, NoRecordingError, RecordingError
from kin_nb.replay.format.carrying import carried_in
from kin_nb.replay.format.conflicted import merge_conflict
from kin_nb.replay.format.later import later_format, refuse_later
from kin_nb.replay.format.reading import Reading
from kin_nb.replay.format.sidecar import KEY as SIDECAR
from kin_nb.replay.format.sidecar import named_sidecar
from kin_nb.replay.recording import (
    FORMAT,
    SHORT,
    Recording,
    SessionMeta,
    other_sha,
    step_sha,
    turn_sha,
    undo_json,
    undo_sha,
)

BLOB_BYTES = 8 * 1024
CELLS = "cells"
"""Which texts saving brought into the notebook's cells (saving/own_cells.py). No hash covers it."""
_REPLAY = re.compile(r"^%kin[ \t]+replay[ \t]+(?P<session>[A-Za-z0-9-]{1,64})@", re.MULTILINE)
_UNNAMED = "SESSION"
_KEYS = frozenset(
    {"format", "session", "digest", "kin_nb", "model", "workspace", "system_prompt", "tools", "blobs", CELLS, SIDECAR}
)
"""What this version writes; anything else is a later one's, and stays."""


def read_recording(nb: Any) -> Recording:
    """The recording in `nb` (as load_notebook gives it, or a NotebookNode), every hash checked.

    Raises NoRecordingError when there is none, RecordingError when anything was edited, is missing or was written by a
    later format: the text names the cell (counted from 1 among all cells), turn, step and, where it shows, the field.
    """
    conflict = merge_conflict(nb)
    if conflict:
        raise RecordingError(conflict)
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict):
        raise NoRecordingError(_no_recording(nb))
    if not isinstance(kin.get("format"), int | float):
        raise NoRecordingError(
            "This notebook's `kin` metadata has no format: another tool's, or no recording any more. If it was one: "
            f"kin-nb save {_named(nb)}"
        )
    if kin["format"] != FORMAT:
        raise LaterFormatError(later_format(kin["format"], kin.get("kin_nb")))
    meta = _meta(kin)
    blobs = kin.get("blobs", {})
    reading = Reading(meta, blobs if isinstance(blobs, dict) else {}, named_sidecar(nb))
    for number, cell in enumerate(nb["cells"], 1):
        records = cell["metadata"].get("kin", [])
        if not isinstance(records, list):
            raise reading.error(f"cell {number}", "its `kin` metadata is not a list of records")
        for raw in records:
            reading.add(number, raw)
    turns = tuple(reading.turns[turn].record for turn in sorted(reading.turns))
    undos = tuple(reading.undos[number] for number in sorted(reading.undos))
    try:
        recording = Recording(meta.session, turns, meta, tuple(reading.others.values()), undos)
    except ValueError as error:  # a turn's cell was deleted, whose undo is there
        raise (reading.missing_error() or reading.error("notebook metadata", str(error))) from error
    if recording.digest != kin.get("digest"):
        raise reading.digest_error(recording, kin.get("digest"), next(iter(_later(kin)), ""))
    return recording


def write_recording(nb: Any, recording: Recording) -> None:
    """Put `recording` into `nb` in place of whatever recording it held: each turn into the cell that asked it.

    The n-th undo goes into the n-th cell that undoes. Raises RecordingError, naming them, when `nb` has no cell for some.
    """
    placed = place_turns(nb, recording.turns)
    missing = [str(turn.turn) for turn in recording.turns if turn.turn not in placed]
    if missing:
        raise RecordingError(f"No cell of this notebook asked turn {', '.join(missing)}. Add a %%kin cell for it.")
    blobs: dict[str, Any] = {}
    records: dict[int, list[dict[str, Any]]] = {}
    for turn in recording.turns:
        records.setdefault(placed[turn.turn], []).append(record_json(turn, blobs))
    undoing = [index for index, cell in enumerate(nb["cells"]) if undoes(nb, cell) is not None]
    for number, undo in enumerate(recording.undos, 1):
        if number > len(undoing):
            raise RecordingError(f"No cell of this notebook plays undo {number}. Add a cell with {undo_source(undo)}")
        records.setdefault(undoing[number - 1], []).append(record_json(undo, blobs, number))
    for text in recording.others:
        other = json.loads(text)
        sha = other_sha(other)
        records.setdefault(_home(nb, sha, placed), []).append({**_stored(other, blobs), "sha": sha})
    for index, cell in enumerate(nb["cells"]):
        cell["metadata"].pop("kin", None)
        if index in records:
            cell["metadata"]["kin"] = records[index]
    before = nb["metadata"].get("kin")
    later = _later(before) if isinstance(before, dict) else {}
    nb["metadata"]["kin"] = {**later, **_meta_json(recording, blobs)}


def session_of(nb: Any) -> tuple[str, str]:
    """(session, digest) as the notebook's metadata claims, nothing checked; "" where there is none."""
    kin = nb["metadata"].get("kin")
    claims = [kin.get(key) if isinstance(kin, dict) else None for key in ("session", "digest")]
    session, digest = (claim if isinstance(claim, str) else "" for claim in claims)
    return session, digest


def _no_recording(nb: Any) -> str:
    named = _named(nb)
    if named == _UNNAMED and any(any(carried_in(cell)) for cell in nb["cells"]):
        return (
            "This notebook holds no recording: only its outputs carry one. Make a session notebook of it: kin-nb save "
            "NOTEBOOK.ipynb OUT.ipynb --from-outputs"
        )
    return f"This notebook holds no recording (a cleaner may have dropped its metadata: kin-nb save {named})"


def _named(nb: Any) -> str:
    """The session that a `%kin replay` cell names, _UNNAMED where there is none."""
    found = (_REPLAY.search(cell["source"]) for cell in nb["cells"])
    return next((match["session"] for match in found if match), _UNNAMED)


def _meta(kin: dict[str, Any]) -> SessionMeta:
    fields = {**kin, "system_prompt_sha": kin.get("system_prompt", ""), "tools_sha": kin.get("tools", "")}
    try:
        meta = SessionMeta.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordingError(
            f"notebook metadata, kin.{where}: {first['msg']}. Write it anew: kin-nb save SESSION"
        ) from error
    refuse_later("notebook metadata", {"workspace": kin.get("workspace")}, meta, meta.kin_nb)
    return meta


def _later(kin: dict[str, Any]) -> dict[str, Any]:
    """What stays as it is."""
    return {key: kin[key] for key in kin if key not in _KEYS}


def _meta_json(recording: Recording, blobs: dict[str, Any]) -> dict[str, Any]:
    meta = recording.meta
    return {
        "format": meta.format,
        "session": meta.session,
        "digest": recording.digest,
        "kin_nb": meta.kin_nb,
        "model": meta.model,
        "workspace": meta.workspace.model_dump(),
        "system_prompt": meta.system_prompt_sha,
        "tools": meta.tools_sha,
        "blobs": blobs,
    }


def record_json(record: TurnRecord | UndoRecord, blobs: dict[str, Any], number: int = 0) -> dict[str, Any]:
    """As it is stored, with its hash; long texts go to `blobs`. `number`: an undo's, in its session."""
    if isinstance(record, UndoRecord):
        return {**_stored(undo_json(number, record), blobs), "sha": undo_sha(number, record)}
    turn = record
    fields = json.loads(canonical_json(turn.model_dump(exclude={"steps"}, exclude_defaults=True)))
    steps = [json.loads(canonical_json(step.model_dump(exclude_defaults=True))) for step in turn.steps]
    stored = [{**_stored(step, blobs), "sha": step_sha(turn.steps[n])[:SHORT]} for n, step in enumerate(steps)]
    return {"type": turn.type, **_stored(fields, blobs), "steps": stored, "sha": turn_sha(turn)}


def _stored(value: Any, blobs: dict[str, Any]) -> Any:
    """`value` with long texts moved to `blobs`, and texts that UTF-8 has no bytes for (lone surrogates) escaped."""
    if isinstance(value, dict):
        return {key: _stored(item, blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [_stored(item, blobs) for item in value]
    if not isinstance(value, str):
        return value
    encoded = value.encode("utf-8", "surrogatepass")
    text = value if encoded.decode("utf-8", "replace") == value else {"json": json.dumps(value)}
    if len(encoded) <= BLOB_BYTES:
        return text
    sha = sha256(encoded)
    blobs[sha] = text
    return {"blob": sha}


def _home(nb: Any, sha: str, placed: dict[int, int]) -> int:
    """The cell where an unknown record goes: where it is, else beside the last turn, else the last cell."""
    for index, cell in enumerate(nb["cells"]):
        records = cell["metadata"].get("kin")
        if isinstance(records, list) and any(isinstance(raw, dict) and raw.get("sha") == sha for raw in records):
            return index
    return max(placed.values(), default=len(nb["cells"]) - 1)
