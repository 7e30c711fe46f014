"""The JSON schema of format 2, made of the models that read it: session-notebook.schema.json, which is shipped for others.

    python -m kin_nb.replay.format.schema > kin_nb/replay/format/session-notebook.schema.json

Nothing here is used when a notebook is read: the models say more, and the hashes all.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic.json_schema import models_json_schema

from kin_nb.core.records import ClearRecord, CompactRecord, RecordedStep, TurnRecord, UndoRecord
from kin_nb.replay.format.notebook_codec import RECORDS_KEY, USER_CELLS_KEY
from kin_nb.replay.format.output_records import RECORD_KEY as CARRIED
from kin_nb.replay.format.record_codec import TYPES
from kin_nb.replay.format.storage import SIDECAR_KEY as SIDECAR
from kin_nb.replay.recording import FORMAT, SHORT_SHA, SessionMeta

_SHA = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SHORT_SHA = {"type": "string", "pattern": f"^[0-9a-f]{{{SHORT_SHA}}}$"}
_TYPES = {
    "TurnRecord": ["turn"],
    "UndoRecord": ["undo", "redo"],
    "ClearRecord": ["clear"],
    "CompactRecord": ["compact"],
    "RecordedStep": [],
}
_RECORDS = [name for name, types in _TYPES.items() if types]
_TEXT = {"$ref": "#/$defs/Text"}
_LARGEST = 2**53 - 1


def format_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12. The root is a notebook; `$defs` also describes sidecar files and other kinds of cells."""
    models = (TurnRecord, UndoRecord, ClearRecord, CompactRecord, RecordedStep, SessionMeta)
    _, made = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    # the session's own fields are short: none of them is ever stored elsewhere
    short = {"SessionMeta", "WorkspaceMeta"}
    defs = {name: _stored(value, texts=name not in short) for name, value in made["$defs"].items()}
    defs["SessionMeta"]["properties"]["format"] = {"const": FORMAT}
    for name, types in _TYPES.items():
        _hashed(defs[name], types)
        if types:
            defs[name]["required"] += ["id"]
    defs["RecordedStep"]["properties"]["sha"] = _SHORT_SHA
    defs["TurnRecord"]["required"] += ["steps"]
    defs |= _forms() | {"Notebook": _notebook(defs["SessionMeta"]), "Later": _later()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Session notebook of kin_nb, format {FORMAT}",
        "description": "docs/reference/format.md says what the fields mean and how the hashes are made.",
        "type": "object",
        "properties": {
            "metadata": {"properties": {"kin": {"$ref": "#/$defs/Notebook"}}},
            "cells": {"items": {"properties": _cell()}},
        },
        "$defs": dict(sorted(defs.items())),
    }


def _stored(value: Any, *, texts: bool) -> Any:
    """The stored form: long texts may be references, integers are in JavaScript's range, unknown fields are rejected."""
    if isinstance(value, list):
        return [_stored(item, texts=texts) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if kind == "string" and texts and value.keys() <= {"type", "title", "default"}:
        return _TEXT
    found = {
        key: {name: _stored(each, texts=texts) for name, each in item.items()}
        if key == "properties"
        else _stored(item, texts=texts)
        for key, item in value.items()
        if key not in ("title", "default")
    }
    if kind == "integer":
        found |= {"minimum": -_LARGEST, "maximum": _LARGEST}
    return found | {"additionalProperties": False} if kind == "object" else found


def _hashed(model: dict[str, Any], types: list[str]) -> None:
    model["properties"]["sha"] = _SHA
    model["required"] = [*model.get("required", []), "sha", *(["type"] if types else [])]
    if types:
        model["properties"]["type"] = {"enum": types}


def _forms() -> dict[str, Any]:
    """Return the definitions of a text, of a record, and of their containers outside of metadata."""
    texts = {
        "type": "object",
        "propertyNames": _SHA,
        "additionalProperties": {"anyOf": [{"type": "string"}, _escaped()]},
    }
    blob = {"type": "object", "properties": {"blob": _SHA}, "required": ["blob"], "additionalProperties": False}
    session = {"type": "object", "properties": {"session": {"type": "string"}}, "required": ["session"]}
    record = {"$ref": "#/$defs/Record"}
    return {
        "Text": {"description": "In place, in blobs, or escaped.", "anyOf": [{"type": "string"}, blob, _escaped()]},
        "Blobs": {"description": "sha256 -> text.", **texts},
        "Record": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in (*_RECORDS, "Later")]},
        "Sidecar": _object("NAME.kin.json.", kin=session, blobs={"$ref": "#/$defs/Blobs"}),
        "Held": _held(record),
        "Embedded": _object(
            "Below %%kin_recording.",
            kin={"$ref": "#/$defs/Notebook"},
            kernel={"type": "string"},
            cells={"type": "array", "items": _embedded_cell()},
        ),
        "Carried": _carried(record),
    }


def _held(record: dict[str, Any]) -> dict[str, Any]:
    held = _object("`kin` in a cell's metadata.", **{RECORDS_KEY: {"type": "array", "items": record}})
    held["properties"]["blobs"] = {"$ref": "#/$defs/Blobs"}
    return held


def _embedded_cell() -> dict[str, Any]:
    return _object("A cell, by its id.", id={"type": "string"}, source={"type": "string"}, kin={"$ref": "#/$defs/Held"})


def _carried(record: dict[str, Any]) -> dict[str, Any]:
    session, blobs = {"$ref": "#/$defs/SessionMeta"}, {"$ref": "#/$defs/Blobs"}
    return _object(f"`{CARRIED}` in an output's metadata.", session=session, record=record, blobs=blobs)


def _escaped() -> dict[str, Any]:
    """Return the schema of a string stored as JSON text."""
    text = {"type": "string", "pattern": '^".*"$'}
    return {"type": "object", "properties": {"json": text}, "required": ["json"], "additionalProperties": False}


def _notebook(session: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a notebook. Two fields of a session have other names there; unknown keys are a later version's."""
    names = {"system_prompt_sha": "system_prompt", "tools_sha": "tools"}
    fields = {names.get(key, key): value for key, value in session["properties"].items()}
    fields |= {RECORDS_KEY: {"type": "object", "additionalProperties": _SHORT_SHA}}
    fields |= {"digest": _SHA, "blobs": {"$ref": "#/$defs/Blobs"}, SIDECAR: {"type": "string", "pattern": r"\.json$"}}
    fields[USER_CELLS_KEY] = {"type": "array", "items": {"type": "string", "pattern": f"^[0-9a-f]{{{SHORT_SHA}}}$"}}
    return {
        "description": "`kin` in the notebook's metadata.",
        "type": "object",
        "properties": fields,
        "required": ["format", "session", "digest", RECORDS_KEY],
    }


def _later() -> dict[str, Any]:
    """Return the schema of a record of an unknown type."""
    kind = {"type": "string", "not": {"enum": [*TYPES]}}
    return {"type": "object", "properties": {"type": kind, "sha": _SHA}, "required": ["type", "sha"]}


def _object(description: str, **fields: Any) -> dict[str, Any]:
    return {"description": description, "type": "object", "properties": fields, "required": [*fields]}


def _cell() -> dict[str, Any]:
    carried = {"properties": {CARRIED: {"$ref": "#/$defs/Carried"}}}
    return {
        "metadata": {"properties": {"kin": {"$ref": "#/$defs/Held"}}},
        "outputs": {"items": {"properties": {"metadata": carried}}},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(format_schema(), indent=1) + "\n")
