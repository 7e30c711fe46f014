"""Read what a server sends, part by part: tool definitions (a bad one costs only that tool), results of calls (every omission is
reported), and the reason why a server is unavailable, with what to do.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from kin_nb.core.config.values import matches
from kin_nb.core.messages import ImageContent
from kin_nb.core.text import shorten
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.truncation import keep_whole

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
    """A tool as its server defines it. `name` is the server's own; `schema`: unchanged, with a missing "object" added."""

    name: str
    description: str
    schema: dict[str, Any]
    fingerprint: str
    """sha256 of name, description and schema: an approval holds for this definition only."""
    says_it_reads: bool = False
    """The server's `readOnlyHint`: such calls run in parallel. The hint is not verified, so they ask like all others."""


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
    return shorten(line, longest)


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
        raise ValueError("its inputSchema must be a JSON object")  # noqa: TRY004  (the one error of this function)
    schema = given if "type" in given else {"type": "object", **given}
    if schema["type"] != "object":
        raise ValueError(f"its inputSchema describes {printable(json.dumps(schema['type']))}, not an object")
    _check(schema, "its inputSchema", _DEEPEST)
    return schema


def _check(schema: Any, where: str, deeper: int) -> None:
    """Check the shape of a schema of any draft. (The jsonschema package would do that, but takes a second to import.)"""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise ValueError(f"{where} must be a schema")  # noqa: TRY004
    if not deeper:
        raise ValueError(f"its inputSchema is more than {_DEEPEST} levels deep")
    for key, value in schema.items():
        here = f"{where}.{printable(key)}"
        if key == "type" and not _is_type(value):
            raise ValueError(f"{here} is not a JSON type")
        for place, inner in _schemas_in(key, value, here):
            _check(inner, place, deeper - 1)


def _schemas_in(key: str, value: Any, here: str) -> list[tuple[str, Any]]:
    """The schemas that a keyword holds, each with its place."""
    if key in _NAMED:
        if not isinstance(value, dict):
            raise ValueError(f"{here} must be an object")
        return [(f"{here}.{printable(name)}", schema) for name, schema in value.items()]
    if key in _LISTS or (key == "items" and isinstance(value, list)):
        if not isinstance(value, list):
            raise ValueError(f"{here} must be a list")
        return [(here, schema) for schema in value if key not in {"enum", "required"}]
    return [(here, value)] if key in _ONE else []


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return all(isinstance(name, str) and name in _TYPES for name in names)


TEXT_LIMIT = 1_000_000
"""Characters of text in a result."""


class MCPResult(BaseModel):
    """`text`: the server's text, and a line for each other part. `structured`: JSON, only when the server sent no text.

    `images` are as they came: core.tools.images chooses those that a model gets.
    """

    text: str
    structured: str | None = None
    images: list[ImageContent] = Field(default_factory=list)


def read_result(raw: dict[str, Any]) -> MCPResult:
    """Read the result of a call. Raises ToolError when the tool reports a failure, or the answer is not a result."""
    blocks, structured = raw.get("content"), raw.get("structuredContent")
    if raw.get("resultType") == "input_required":
        raise ToolError("The server asks for input in the middle of a call, which is not supported.")
    if not isinstance(blocks, list):
        if structured is None:
            raise ToolError("The server's answer is not a tool result: `content` is missing.")
        blocks = []
    reader = _Reader()
    for block in blocks:
        reader.add(block if isinstance(block, dict) else {})
    text = capped("\n".join(reader.lines))
    if raw.get("isError"):
        raise ToolError(text if text.strip() else "The tool says that it failed, and not why.")
    no_text = structured is not None and not reader.found_text
    return MCPResult(
        text=text,
        structured=capped(json.dumps(structured, ensure_ascii=False)) if no_text else None,
        images=reader.images,
    )


class _Reader:
    """Content blocks, one after another."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.images: list[ImageContent] = []
        self.found_text = False

    def add(self, block: dict[str, Any]) -> None:
        match block.get("type"):
            case "text" if isinstance(block.get("text"), str):
                self._text(block["text"])
            case "image" if isinstance(block.get("data"), str):
                self.images.append(ImageContent(media_type=_word(block, "mimeType"), data=block["data"]))
            case "audio":
                self._note(f"audio, {_described(block, 'data')}: not shown")
            case "resource_link":
                self._note(f"resource {_word(block, 'title') or _word(block, 'name')}: {_word(block, 'uri')}")
            case "resource" if isinstance(block.get("resource"), dict):
                self._resource(block["resource"])
            case kind:
                self._note(f"a part of the answer is not understood (type {printable(json.dumps(kind))})")

    def _text(self, text: str) -> None:
        self.found_text = self.found_text or bool(text.strip())
        self.lines.append(text)

    def _note(self, text: str) -> None:
        self.lines.append(f"[{text}]")

    def _resource(self, resource: dict[str, Any]) -> None:
        if isinstance(resource.get("text"), str):
            self._note(_word(resource, "uri"))
            self._text(resource["text"])
        elif _word(resource, "mimeType").startswith("image/") and isinstance(resource.get("blob"), str):
            self.images.append(ImageContent(media_type=_word(resource, "mimeType"), data=resource["blob"]))
        else:
            self._note(f"{_word(resource, 'uri')}, {_described(resource, 'blob')}: not shown")


def _word(block: dict[str, Any], key: str) -> str:
    value = block.get(key)
    return printable(value, 500) if isinstance(value, str) else ""


def _described(block: dict[str, Any], key: str) -> str:
    data = block.get(key)
    size = f"{len(data) * 3 // 4:,} bytes" if isinstance(data, str) else "no data"
    return f"{_word(block, 'mimeType') or 'of no type'}, {size}"


def capped(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    keep_whole(text)
    half = TEXT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


_LONGEST = 600


class ServerFailed(Exception):  # noqa: N818  (what happened; ToolError is what the model gets to read)
    """The server did not start, or is gone. The text says why, and what to do; it does not name the server."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text, _LONGEST))


def not_understood(error: ValidationError) -> str:
    """Describe an answer that breaks the protocol, without the text of the package that read it."""
    fields = dict.fromkeys(".".join(map(str, problem["loc"])) for problem in error.errors() if problem["loc"])
    named = printable(", ".join(list(fields)[:5]), 200)
    return (
        f"its answer is not as MCP wants it ({named} missing or wrong)"
        if named
        else "its answer is not as MCP wants it"
    )
