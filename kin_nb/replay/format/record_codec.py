"""One record <-> JSON, checked on every read, so that an edit by hand is named by cell, turn, step and field."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import ValidationError

from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    Moved,
    Record,
    RecordedStep,
    SessionRecord,
    TurnRecord,
    UndoRecord,
    canonical_json,
    sha256,
)
from kin_nb.render import one_line
from kin_nb.replay.errors import MissingTextError, RecordingError
from kin_nb.replay.format.notebook_reader import reject_unknown_fields, shortened
from kin_nb.replay.recording import (
    SHORT_SHA,
    SessionMeta,
    move_fields,
    normalize_numbers,
    record_label,
    record_sha,
    step_sha,
    turn_sha,
    unknown_record_sha,
)

R = TypeVar("R", bound=Record)
BLOB_BYTES = 8 * 1024
"""A longer text is stored once, apart from its record."""
_MOVED: dict[str, type[Moved]] = {
    "undo": UndoRecord,
    "redo": UndoRecord,
    "clear": ClearRecord,
    "compact": CompactRecord,
}
TYPES = ("turn", *_MOVED)
"""Of the records that this version knows."""


def encode_record(record: SessionRecord, blobs: dict[str, Any]) -> dict[str, Any]:
    """Encode a record with its hash; long texts go to `blobs`."""
    if not isinstance(record, TurnRecord):
        return {**encode_value(move_fields(record), blobs), "sha": record_sha(record)}
    fields = json.loads(canonical_json(record.model_dump(exclude={"steps"}, exclude_defaults=True)))
    steps = [json.loads(canonical_json(step.model_dump(exclude_defaults=True))) for step in record.steps]
    hashed = [
        {**encode_value(step, blobs), "sha": step_sha(record.steps[n])[:SHORT_SHA]} for n, step in enumerate(steps)
    ]
    return {**encode_value(fields, blobs), "type": record.type, "steps": hashed, "sha": turn_sha(record)}


def encode_value(value: Any, blobs: dict[str, Any]) -> Any:
    """Encode a value: move long texts to `blobs`, and escape lone surrogates, which UTF-8 cannot represent."""
    if isinstance(value, dict):
        return {key: encode_value(item, blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [encode_value(item, blobs) for item in value]
    if not isinstance(value, str):
        return value
    encoded = value.encode("utf-8", "surrogatepass")
    text = value if encoded.decode("utf-8", "replace") == value else {"json": json.dumps(value)}
    if len(encoded) <= BLOB_BYTES:
        return text
    sha = sha256(encoded)
    blobs[sha] = text
    return {"blob": sha}


class RecordReader:
    """Reads the records of one place. `blobs`: its long texts by hash. `sidecar`: the file that they come from, if any."""

    def __init__(self, meta: SessionMeta, blobs: dict[str, Any], sidecar: str = "") -> None:
        self._meta = meta
        self._blobs = blobs
        self._where_blobs_are = sidecar or "the notebook's blobs"
        self._restore = (
            f"Put {one_line(sidecar)}, as it was saved, next to the notebook" if sidecar else "Restore the notebook"
        )

    def read(self, cell: int, raw: Any) -> SessionRecord | str:
        """Verify and return a record; for an unknown type, its JSON text. `cell`: its number, from 1, for messages.

        Raises RecordingError.
        """
        if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
            raise self.error(f"cell {cell}", "a record has no type")
        if raw["type"] not in TYPES:
            return self._other(cell, raw)
        record = self._turn(cell, raw) if raw["type"] == "turn" else self._moved(cell, raw)
        if not record.id:
            raise self.error(f"cell {cell}, {record_label(record)}", "field id is missing")
        return record

    def error(self, where: str, what: str, restore: str = "Restore the notebook") -> RecordingError:
        repair = f"{restore}, or recreate it from the session log: kin-nb save {self._meta.session}"
        # a file says what it likes, at any length, and terminals obey some of it
        return RecordingError(f"{one_line(where)}: {one_line(what, 400)}.\n{repair}")

    def _moved(self, cell: int, raw: dict[str, Any]) -> Moved:
        where = f"cell {cell}, {raw['type']}"
        fields = {key: value for key, value in raw.items() if key != "sha"}
        record, value = self._validated(_MOVED[raw["type"]], fields, where)
        reject_unknown_fields(where, value, record, self._meta.kin_nb)
        if record_sha(record) != raw.get("sha"):
            raise self.error(where, "it was changed after it was recorded")
        return record

    def _other(self, cell: int, raw: dict[str, Any]) -> str:
        where = f"cell {cell}, record {shortened(repr(raw['type']))}"
        value = normalize_numbers(self._resolved({k: v for k, v in raw.items() if k != "sha"}, where, ""))
        if unknown_record_sha(value) != raw.get("sha"):
            raise self.error(where, "it was changed after it was recorded")
        return canonical_json(value)

    def _turn(self, cell: int, raw: dict[str, Any]) -> TurnRecord:
        number = normalize_numbers(raw.get("turn"))
        where = f"cell {cell}, turn {shortened(number)}"
        steps = raw.get("steps")
        if not isinstance(steps, list):
            raise self.error(where, "field `steps` is missing or not a list")
        checked = tuple(self._step(f"{where}, step {n}", step) for n, step in enumerate(steps, 1))
        fields = {key: value for key, value in raw.items() if key not in ("steps", "sha")}
        known, value = self._validated(TurnRecord, fields, where)
        reject_unknown_fields(where, value, known, self._meta.kin_nb)
        turn = known.model_copy(update={"steps": checked})
        if turn_sha(turn) != raw.get("sha"):
            raise self.error(where, "it was changed after it was recorded")
        return turn

    def _step(self, where: str, raw: Any) -> RecordedStep:
        if not isinstance(raw, dict):
            raise self.error(where, "it is not a record")
        step, value = self._validated(RecordedStep, {k: v for k, v in raw.items() if k != "sha"}, where)
        reject_unknown_fields(where, value, step, self._meta.kin_nb)
        sha = step_sha(step)
        if raw.get("sha") != sha[:SHORT_SHA]:
            raise self.error(where, "its reply or one of its tool calls was changed after it was recorded")
        return step

    def _validated(self, model: type[R], raw: dict[str, Any], where: str) -> tuple[R, Any]:
        value = self._resolved(raw, where, "")
        try:
            return model.model_validate(value), value
        except ValidationError as error:
            first = error.errors()[0]
            raise self.error(where, f"field {_path(first['loc'])}: {first['msg']}") from error

    def _resolved(self, value: Any, where: str, path: str) -> Any:
        if isinstance(value, list):
            return [self._resolved(item, where, f"{path}.{n}") for n, item in enumerate(value, 1)]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"blob"}:
            return self._blob(value["blob"], where, path)
        if value.keys() == {"json"}:
            return self._escaped(value["json"], where, path)
        return {key: self._resolved(item, where, f"{path}.{key}") for key, item in value.items()}

    def _blob(self, sha: Any, where: str, path: str) -> str:
        stored = self._blobs.get(sha) if isinstance(sha, str) else None
        if stored is None:
            what = f"field {shortened(path[1:])}: its text is missing from {self._where_blobs_are}"
            raise MissingTextError(str(self.error(where, what, self._restore)))
        text: Any = stored
        if isinstance(stored, dict):
            text = self._escaped(stored.get("json"), where, path)
        if not isinstance(text, str) or sha256(text) != sha:
            raise self.error(where, f"field {shortened(path[1:])}: its text in {self._where_blobs_are} was changed")
        return text

    def _escaped(self, text: Any, where: str, path: str) -> str:
        try:
            value = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            value = None
        if isinstance(value, str):
            return value
        raise self.error(where, f"field {shortened(path[1:])}: it is not an escaped text")


def _path(loc: tuple[int | str, ...]) -> str:
    """Format the place of a pydantic error, with list items counted from 1 as in all messages."""
    return ".".join(str(part + 1 if isinstance(part, int) else part) for part in loc)
