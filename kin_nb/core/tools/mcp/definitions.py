"""What a server says of its tools, read one by one: a bad definition costs that tool only."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kin_nb.core.config.values import matches

LARGEST_DEFINITION = 100_000
"""Characters of description and schema; a longer one would fill the context of every request."""
_LONGEST_NAME = 64
_DIGEST = 8
_DEEPEST = 100
_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems", "enum", "required"}
_ONE = {"items", "contains", "not", "if", "then", "else", "additionalProperties", "propertyNames"}


@dataclass(frozen=True)
class RemoteTool:
    """A tool as its server defines it. `name` is the server's own; `schema` is untouched but for a missing "object"."""

    name: str
    description: str
    schema: dict[str, Any]
    fingerprint: str
    """sha256 of name, description and schema: an approval holds for this definition only."""
    says_it_reads: bool = False
    """The server's `readOnlyHint`: such calls run side by side. Nobody checks it, so they ask like any other."""


def read_tools(listed: Sequence[Any], disabled: Collection[str]) -> tuple[list[RemoteTool], list[str]]:
    """The usable tools in the server's order, without those that `disabled` names, and a line for each unusable one."""
    tools: dict[str, RemoteTool] = {}
    problems: list[str] = []
    for raw in listed:
        name = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not name:
            problems.append("a tool without a name was left out")
        elif name in tools:
            problems.append(f"tool {printable(name)} is listed twice; the first counts")
        elif not matches(name, disabled):
            try:
                tools[name] = _read(name, raw)
            except (ValueError, RecursionError) as error:
                problems.append(f"tool {printable(name)} was left out: {error}")
    return list(tools.values()), problems


def tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """`{server}_{tool}` in what providers accept: 64 of [A-Za-z0-9_-]. Cut or taken: a digest makes it unique."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")
    if len(name) <= _LONGEST_NAME and name not in taken:
        return name
    digest = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_DIGEST]
    return f"{name[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"


def printable(text: str, longest: int = 100) -> str:
    """A server's words on one line, without control characters."""
    line = "".join(c if c.isprintable() else " " for c in text[: longest + 1])
    return line if len(line) <= longest else f"{line[:longest]}…"


def _read(name: str, raw: dict[str, Any]) -> RemoteTool:
    """Raises ValueError that says what is wrong with the definition."""
    description = raw.get("description")
    description = description if isinstance(description, str) else ""
    schema = _schema(raw.get("inputSchema"))
    definition = json.dumps([name, description, schema], sort_keys=True)
    if len(definition) > LARGEST_DEFINITION:
        raise ValueError(f"its definition has {len(definition):,} characters; at most {LARGEST_DEFINITION:,} are taken")
    annotations = raw.get("annotations")
    says_it_reads = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    return RemoteTool(name, description, schema, hashlib.sha256(definition.encode()).hexdigest(), says_it_reads)


def _schema(given: Any) -> dict[str, Any]:
    """Raises ValueError for what providers refuse: they refuse the whole request for one such tool."""
    if given is None:
        return {"type": "object", "properties": {}}
    if not isinstance(given, dict):
        raise ValueError("its inputSchema is no JSON object")  # noqa: TRY004  (the one error of this function)
    schema = given if "type" in given else {"type": "object", **given}
    if schema["type"] != "object":
        raise ValueError(f"its inputSchema describes {printable(json.dumps(schema['type']))}, not an object")
    _check(schema, "its inputSchema", _DEEPEST)
    return schema


def _check(schema: Any, where: str, deeper: int) -> None:
    """The shape of a schema, in any draft. (The jsonschema package would do; beside Jupyter it takes a second to import.)"""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise ValueError(f"{where} is no schema")  # noqa: TRY004
    if not deeper:
        raise ValueError(f"its inputSchema is more than {_DEEPEST} levels deep")
    for key, value in schema.items():
        here = f"{where}.{printable(key)}"
        if key == "type" and not _is_type(value):
            raise ValueError(f"{here} is no type of JSON")
        for place, inner in _schemas_in(key, value, here):
            _check(inner, place, deeper - 1)


def _schemas_in(key: str, value: Any, here: str) -> list[tuple[str, Any]]:
    """The schemas that a keyword holds, each with its place."""
    if key in _NAMED:
        if not isinstance(value, dict):
            raise ValueError(f"{here} is no object")
        return [(f"{here}.{printable(name)}", schema) for name, schema in value.items()]
    if key in _LISTS or (key == "items" and isinstance(value, list)):
        if not isinstance(value, list):
            raise ValueError(f"{here} is no list")
        return [(here, schema) for schema in value if key not in {"enum", "required"}]
    return [(here, value)] if key in _ONE else []


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return all(isinstance(name, str) and name in _TYPES for name in names)
