"""What Anthropic's Messages API refuses with 400, in words. Stricter than it in one thing: neighbours of one role."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOP = {
    "model",
    "messages",
    "max_tokens",
    "stream",
    "system",
    "tools",
    "tool_choice",
    "temperature",
    "thinking",
    "output_config",
}
_COUNTED = {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
_FIELDS = {
    "text": {"text"},
    "image": {"source"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content"},
}
_BLOCKS = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
    "tool_result": {"text", "image"},
}
_MOST_CACHED = 4
_THINKING = {"thinking", "redacted_thinking"}


def broken_rules(request: dict[str, Any], signed: Mapping[str, str], *, counting: bool = False) -> Iterator[str]:
    """`signed`: what stood in each thinking block that the server gave, by signature or data."""
    yield from _broken_options(request, counting=counting)
    messages = request.get("messages") or []
    if not messages or messages[0].get("role") != "user":
        yield "messages: first message must use the user role"
    for position, message in enumerate(messages):
        where = f"messages.{position}"
        if message.keys() != {"role", "content"} or message["role"] not in _BLOCKS:
            yield f"{where}: Extra inputs are not permitted"
            return
        if position and messages[position - 1]["role"] == message["role"]:
            yield f"{where}: roles must alternate between user and assistant"
        yield from (f"{where}: {rule}" for rule in _broken_blocks(message["role"], message["content"], signed))
    yield from _broken_pairs(messages)
    yield from _broken_thinking_turn(request, messages)
    if str(request).count("'cache_control'") > _MOST_CACHED:
        yield "A maximum of 4 blocks with cache_control may be provided"


def _broken_options(request: dict[str, Any], *, counting: bool) -> Iterator[str]:
    for field in sorted(request.keys() - (_COUNTED if counting else _TOP)):
        yield f"{field}: Extra inputs are not permitted"
    limit = request.get("max_tokens", 1 if counting else 0)
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens: Field required"
    kind, version = (request.get("thinking") or {}).get("type"), _version(request["model"])
    if kind == "enabled" and not 1024 <= request["thinking"].get("budget_tokens", 0) < limit:
        yield "thinking.enabled.budget_tokens: must be at least 1024 and less than max_tokens"
    if (kind == "enabled" and version >= (4, 7)) or (kind == "adaptive" and version < (4, 6)):
        yield f'"thinking.type.{kind}" is not supported for this model'
    if kind == "disabled" and version >= (5, 5):
        yield '"thinking.type.disabled" is not supported for this model'
    if "temperature" in request and (kind or version >= (4, 7)):
        yield "temperature is not supported with thinking, nor by this model"
    choice = (request.get("tool_choice") or {}).get("type", "auto")
    if choice not in {"auto", "any", "none"} or (choice == "any" and (kind or version >= (5, 0))):
        yield f"tool_choice: {choice} is not supported here"
    for tool in request.get("tools") or ():
        if (
            tool.keys() != {"name", "description", "input_schema"}
            or tool["input_schema"].get("type") != "object"
            or (tool["input_schema"].keys() & {"anyOf", "oneOf", "allOf"})
        ):
            yield f"tools: {tool}"


def _broken_blocks(role: str, content: Any, signed: Mapping[str, str]) -> Iterator[str]:
    if not isinstance(content, list) or not content:
        yield "content: must be a list of blocks that is not empty"
        return
    for block in content:
        kind = block.get("type")
        if kind not in _BLOCKS[role]:
            yield f"content: {kind!r} in {role}"
            continue
        if extra := block.keys() - {"type", "cache_control"} - _FIELDS[kind]:
            yield f"{kind}: Extra inputs are not permitted: {sorted(extra)}"
        if kind in _THINKING and "cache_control" in block:
            yield f"{kind}: cache_control is not permitted"
        yield from _broken_block(kind, block, signed)
    if role == "assistant" and content[-1].get("type") in _THINKING:
        yield "The final block in an assistant message cannot be `thinking`"
    results = [block["type"] == "tool_result" for block in content]
    if role == "user" and results != sorted(results, reverse=True):
        yield "tool_result blocks must come first"


def _broken_block(kind: str, block: dict[str, Any], signed: Mapping[str, str]) -> Iterator[str]:
    if kind == "text" and not block["text"].strip():
        yield "text content blocks must contain non-whitespace text"
    if kind == "thinking" and signed.get(block.get("signature", "")) != block["thinking"]:
        yield "Invalid `signature` in `thinking` block"
    if kind == "redacted_thinking" and block["data"] not in signed:
        yield "Invalid `data` in `redacted_thinking` block"
    if kind == "image":
        source = block["source"]
        if source["type"] != "base64" or source["media_type"] not in {
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
        }:
            yield f"image: {source['media_type']}"
        try:
            base64.b64decode(source["data"], validate=True)
        except binascii.Error:
            yield "image: invalid base64"
    if kind == "tool_use" and not (re.fullmatch(r"[A-Za-z0-9_-]+", block["id"]) and isinstance(block["input"], dict)):
        yield f"tool_use: {block}"
    if kind == "tool_result" and "content" in block:
        yield from _broken_blocks("tool_result", block["content"], signed)


def _broken_pairs(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Every tool_use is answered in the very next message, once, and nothing else is."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for message in [*messages, {"role": "user", "content": []}]:
        results = [b["tool_use_id"] for b in message["content"] if b.get("type") == "tool_result"]
        if sorted(results) != sorted(open_calls):
            yield f"`tool_use` ids were found without `tool_result` blocks immediately after, or the reverse: {open_calls}"
        open_calls = [b["id"] for b in message["content"] if b.get("type") == "tool_use"]
        if seen & set(open_calls) or len(set(open_calls)) < len(open_calls):
            yield "`tool_use` ids must be unique"
        seen |= set(open_calls)


def _broken_thinking_turn(request: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[str]:
    if (request.get("thinking") or {}).get("type") != "enabled":
        return
    if messages[-1]["content"][0]["type"] == "tool_result" and messages[-2]["content"][0]["type"] not in _THINKING:
        yield "Expected `thinking` or `redacted_thinking`, but found `tool_use`"


def _version(model: str) -> tuple[int, int]:
    major, minor = re.match(r"claude-[a-z]+-(\d+)-(\d+)", model).groups()
    return int(major), int(minor)
