"""What a call brought back, as text and pictures: nothing of an answer is dropped without a word."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

from kin_nb.core.messages import ImageContent
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.mcp.definitions import printable
from kin_nb.core.tools.truncation import keep_whole

TEXT_LIMIT = 1_000_000
"""Characters of text in a result."""


class MCPResult(BaseModel):
    """`text`: the server's text, and a line for whatever is none. `structured`: JSON, only where there is no text.

    `images` are as they came: core.tools.images chooses those that a model gets.
    """

    text: str
    structured: str | None = None
    images: list[ImageContent] = Field(default_factory=list)


def read_result(raw: dict[str, Any]) -> MCPResult:
    """Raises ToolError when the tool says that it failed, or the answer is none."""
    blocks, structured = raw.get("content"), raw.get("structuredContent")
    if raw.get("resultType") == "input_required":
        raise ToolError("The server asks for input in the middle of a call, which is not supported.")
    if not isinstance(blocks, list):
        if structured is None:
            raise ToolError("The server's answer is no result of a tool: it has no content.")
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
