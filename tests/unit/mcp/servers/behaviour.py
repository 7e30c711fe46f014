"""What the test servers offer and answer, over either transport: standard library only, no validation, no manners."""

from __future__ import annotations

import json
import os

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DEEP = {  # keywords and references that a client might lose
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "tree": {"$ref": "#/$defs/node"},
        "either": {"oneOf": [{"const": 1}, {"pattern": "^a"}]},
        "any": True,
    },
    "required": ["tree"],
    "patternProperties": {"^x-": {"type": ["string", "null"], "x-vendor": {"kept": None}}},
    "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
    "additionalProperties": False,
}

TOOLS = [
    {"name": "echo", "description": "Say it again", "inputSchema": {"type": "object"}},
    {"name": "deep", "description": "Has a rich schema", "inputSchema": DEEP, "annotations": {"readOnlyHint": True}},
]


def initialized(version: str) -> dict:
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "test", "version": "0"},
    }


def text(*lines: str) -> dict:
    return {"content": [{"type": "text", "text": line} for line in lines]}


def result(name: str, arguments: dict) -> dict:
    """The result of a call, for tools that need no more than this; any name is a tool."""
    results = {
        "environment": lambda: text(json.dumps(dict(os.environ))),
        "folder": lambda: text(os.getcwd()),  # noqa: PTH109
        "structured": lambda: {"content": [], "structuredContent": {"answer": 42, "none": None}},
        "both": lambda: {**text("as text"), "structuredContent": {"answer": 42}},
        "failure": lambda: {**text("it did not work"), "isError": True},
        "empty": lambda: {"content": []},
        "no_result": lambda: {"something": "else"},
        "input_required": lambda: {"resultType": "input_required", "inputRequests": {}},
        "big": lambda: text("x" * 30_000_000),
        "half": lambda: text("HALF"),  # over stdio: see there
        "mixed": lambda: {
            "content": [
                {"type": "text", "text": "first"},
                {"type": "image", "data": PNG, "mimeType": "image/png"},
                {"type": "image", "data": "PHN2Zy8+", "mimeType": "image/svg+xml"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"},
                {"type": "resource", "resource": {"uri": "test://text", "mimeType": "text/plain", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "test://pic", "mimeType": "image/png", "blob": PNG}},
                {"type": "resource", "resource": {"uri": "test://zip", "mimeType": "application/zip", "blob": "AAAA"}},
                {"type": "hologram", "data": 1},
                "no block",
                {"type": "image", "data": 7},
            ]
        },
    }
    return results.get(name, lambda: text(json.dumps(arguments, sort_keys=True)))()
