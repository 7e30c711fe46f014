"""What every wire format needs: JSON that strict servers take, and a history encoded as far as it is new."""

from __future__ import annotations

import json
from collections.abc import Container
from operator import is_
from typing import Any, Generic, TypeVar

from kin_nb.core.types import ImageContent, LLMMessage, Role, ToolCall

P = TypeVar("P")
Destination = tuple[str, str]
"""A request's provider and model, by name: what a tool call's origin is compared with."""


class Sent(Generic[P]):
    """What the messages of the last request became, one piece each: only what is new since then is looked at.

    Asking 800 messages for their bytes takes 3 ms; comparing them takes 15 µs.
    """

    def __init__(self) -> None:
        self.pieces: list[P] = []
        self._messages: list[LLMMessage] = []
        self._style = ""

    def keep(self, messages: list[LLMMessage], style: str) -> int:
        """Forget what is not so any more; the number of pieces that still hold. The caller appends the others."""
        same = min(len(messages), len(self._messages)) if style == self._style else 0
        if not all(map(is_, messages[:same], self._messages)):
            pairs = enumerate(zip(messages, self._messages, strict=False))
            same = next(i for i, (now, then) in pairs if now is not then)
        self._style, self._messages = style, messages[:]
        del self.pieces[same:]
        return same


def to_json(value: Any) -> bytes:
    # A lone surrogate becomes "?": escaped, it would reach strict servers, which refuse the whole history for good.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def arguments_object(arguments: str | None) -> dict[str, Any] | None:
    """What the model wrote as arguments, None when that is no JSON object: strict servers parse what the history holds."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)  # NaN and Infinity are Python's, not JSON's

    try:
        parsed = json.loads(arguments or "", parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def data_url(image: ImageContent) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def answered_together(messages: list[LLMMessage], end: int) -> list[LLMMessage]:
    """The tool messages that stand right before position `end`: the answers to one reply."""
    start = end
    while start and messages[start - 1].role is Role.tool:
        start -= 1
    return messages[start:end]


def with_own_ids(message: LLMMessage, before: list[LLMMessage], to: Destination | None) -> LLMMessage:
    """`message` as the server `to` knows it: with its own ids for calls and answers, and its own fields.

    Other servers, and None, which stands for one that takes nothing of its own back, get the ids of the history and no
    fields. `before`: the messages before it, where an answer finds its call.
    """
    if message.role is Role.tool:
        asked = next((m for m in reversed(before) if m.role is not Role.tool), None)
        call = next((c for c in (asked and asked.tool_calls) or () if c.id == message.tool_call_id), None)
        own = _own_id(call, to) if call is not None else message.tool_call_id
        return message if own == message.tool_call_id else message.changed(tool_call_id=own)
    if not any(call.origin for call in message.tool_calls or ()):
        return message
    calls = [
        call.model_copy(
            update={
                "id": _own_id(call, to),
                "origin": call.origin if call.origin and to and call.origin.provider == to[0] else None,
            }
        )
        for call in message.tool_calls or ()
    ]
    return message.changed(tool_calls=calls)


def _own_id(call: ToolCall, to: Destination | None) -> str | None:
    origin = call.origin
    return origin.id if origin and origin.id and to == (origin.provider, origin.model) else call.id


def other_fields(raw: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """What a server sent beyond the fields of the format. null says nothing."""
    return {key: value for key, value in raw.items() if key not in known and value is not None}


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value >= 0 else 0
