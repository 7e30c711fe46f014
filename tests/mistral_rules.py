"""What Mistral's chat completions refuse, and with which status: unknown fields (422), histories out of order (400)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_TOP = {"model", "messages", "temperature", "max_tokens", "stream", "tools", "tool_choice", "reasoning_effort"}
_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_PARTS = {
    "system": {"text"},
    "user": {"text", "image_url"},
    "assistant": {"text", "thinking"},
    "tool": {"text"},
}
_AFTER = {
    "system": {"system", "user", "assistant"},
    "user": {"assistant", "system", "user"},
    "assistant": {"user", "tool"},
    "tool": {"assistant", "tool"},
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def broken_mistral_rules(request: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """(status, rule in words), the first being the one that the API would name."""
    for field in sorted(request.keys() - _TOP):
        yield 422, f"Extra inputs are not permitted: {field}"
    if request.get("tools") == []:
        yield 422, "Extra inputs are not permitted: tools"
    if request.get("tool_choice", "auto") not in {"auto", "none", "any", "required"}:
        yield 422, f"tool_choice {request['tool_choice']!r}"
    if request.get("reasoning_effort") and not re.match(r"mistral-(small|medium|large)", request["model"]):
        yield 400, f"reasoning_effort is not supported for {request['model']}"
    messages = request.get("messages") or []
    for position, message in enumerate(messages):
        yield from _broken_message(message, position)
    yield from _broken_order(messages)


def _broken_message(message: dict[str, Any], position: int) -> Iterator[tuple[int, str]]:
    role, content = message.get("role"), message.get("content")
    if role not in _FIELDS:
        yield 422, f"message {position}: role {role!r}"
        return
    for field in sorted(message.keys() - _FIELDS[role]):
        yield 422, f"Extra inputs are not permitted: messages.{position}.{role}.{field}"
    for part in content if isinstance(content, list) else ():
        if part.get("type") not in _PARTS[role]:
            yield 422, f"message {position}: {part.get('type')!r} in a message of the {role}"
    if role == "assistant" and not content and not message.get("tool_calls"):
        yield 400, f"message {position}: Assistant message must have either content or tool_calls"
    for call in message.get("tool_calls") or ():
        yield from ((code, f"message {position}: {rule}") for code, rule in _broken_call(call))
    if role == "tool" and not re.fullmatch(r"[A-Za-z0-9]{9}", message.get("tool_call_id") or ""):
        yield 400, f"message {position}: tool_call_id {message.get('tool_call_id')!r}"


def _broken_call(call: dict[str, Any]) -> Iterator[tuple[int, str]]:
    if call.keys() - {"id", "type", "function", "index"}:
        yield 422, f"Extra inputs are not permitted: {sorted(call)}"
    if not re.fullmatch(r"[A-Za-z0-9]{9}", call.get("id") or ""):
        yield 400, f"Tool call id was {call.get('id')!r} but must be a-z, A-Z, 0-9, with a length of 9"
    if not _NAME.fullmatch(call["function"].get("name") or ""):
        yield 400, f"Function name was {call['function'].get('name')!r}"
    try:
        json.loads(call["function"]["arguments"])
    except ValueError:
        yield 400, "arguments are not JSON"


def _broken_order(messages: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    before, waiting = None, set[str]()
    for message in messages:
        role = message["role"]
        if before and role not in _AFTER.get(before, set()):
            yield 400, f"Unexpected role '{role}' after role '{before}'"
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield 400, f"Unexpected tool call id {message.get('tool_call_id')} in tool results"
            waiting.discard(message.get("tool_call_id", ""))
        elif waiting:
            yield 400, "Not the same number of function calls and responses"
            waiting = set()
        if role == "assistant":
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
        before = role
    if waiting:
        yield 400, "Not the same number of function calls and responses"
    if before not in {"user", "tool"}:
        yield 400, f"Expected last role User or Tool for serving but got {before}"
