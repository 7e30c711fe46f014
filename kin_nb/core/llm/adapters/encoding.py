"""What every wire format needs: JSON that strict servers take, a history encoded as far as it is new, text in place of images."""

from __future__ import annotations

import json
from collections.abc import Container
from operator import is_
from typing import Any, Generic, NamedTuple, TypeVar

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.messages import ImageContent, LLMMessage, Role, ToolCall
from kin_nb.core.records import CallOrigin
from kin_nb.core.urls import digest

P = TypeVar("P")
MOST_TOKENS = 10**12
"""Of one figure. The sums of thousands stay below 2**53, as records promise."""


class Destination(NamedTuple):
    """Where a request goes: what a tool call's origin is compared with."""

    provider: str
    address: str
    model: str

    @classmethod
    def of(cls, provider: ProviderConfig, model: str) -> Destination:
        return cls(provider.name, digest(provider.api_base), model)

    def made(self, origin: CallOrigin) -> bool:
        """Whether this server made what has that origin; of an old record, which names no address, a provider of that name."""
        return origin.provider == self.provider and origin.address in {"", self.address}

    def made_with_this_model(self, origin: CallOrigin) -> bool:
        return self.made(origin) and origin.model == self.model


class SentPieces(Generic[P]):
    """What the messages of the last request became, one piece each: only what is new since then is looked at.

    Asking 800 messages for their bytes takes 3 ms; comparing them takes 15 µs.
    """

    def __init__(self) -> None:
        self.pieces: list[P] = []
        self._messages: list[LLMMessage] = []
        self._style = ""

    def keep(self, messages: list[LLMMessage], style: str) -> int:
        """Forget what is not so any more; the number of pieces that still hold. The caller appends the others."""
        same = min(len(messages), len(self.pieces)) if style == self._style else 0
        if not all(map(is_, messages[:same], self._messages)):
            pairs = enumerate(zip(messages, self._messages, strict=False))
            same = next(i for i, (now, then) in pairs if now is not then)
        self._style, self._messages = style, messages[:]
        del self.pieces[same:]
        return same


def to_json(value: Any) -> bytes:
    # A lone surrogate becomes "?": escaped, it would reach strict servers, which refuse the whole history for good.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def listed(pieces: list[bytes]) -> list[bytes]:
    """`pieces` with commas between them, to be joined with the rest of a body: each copy of a long one takes 0.1 ms."""
    separated = [b","] * (2 * len(pieces) - 1)
    separated[::2] = pieces
    return separated


def arguments_object(arguments: str | None) -> dict[str, Any] | None:
    """Parse the arguments of a call; None if they are not a JSON object. Strict servers parse the history too."""

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
    """Return the tool messages directly before position `end`: the answers to one reply."""
    start = end
    while start and messages[start - 1].role is Role.tool:
        start -= 1
    return messages[start:end]


def with_own_ids(message: LLMMessage, before: list[LLMMessage], to: Destination | None) -> LLMMessage:
    """Return `message` with the ids and extra fields that the server `to` itself sent.

    All other servers, and None, get the ids of the history and no extra fields. `before`: the messages before it, to find the
    call of an answer.
    """
    if message.role is Role.tool:
        asked = next((m for m in reversed(before) if m.role is not Role.tool), None)
        call = next((c for c in (asked and asked.tool_calls) or () if c.id == message.tool_call_id), None)
        own = _own_id(call, to) if call is not None else message.tool_call_id
        return message if own == message.tool_call_id else message.changed(tool_call_id=own)
    if message.origin and not (to and to.made_with_this_model(message.origin)):
        message = message.changed(origin=None)  # it is bound to the model, and names calls by the model's own ids
    if not any(call.origin for call in message.tool_calls or ()):
        return message
    calls = [
        call.model_copy(
            update={
                "id": _own_id(call, to),
                "origin": call.origin if call.origin and to and to.made(call.origin) else None,
            }
        )
        for call in message.tool_calls or ()
    ]
    return message.changed(tool_calls=calls)


def _own_id(call: ToolCall, to: Destination | None) -> str | None:
    origin = call.origin
    own = origin.id if origin and to and to.made_with_this_model(origin) else ""
    return own or call.id


def other_fields(raw: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """What a server sent beyond the fields of the format. null says nothing."""
    return {key: value for key, value in raw.items() if key not in known and value is not None}


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_count(value: Any) -> int:
    """Return a number of tokens; 0 for text, NaN, a negative or an impossible number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= MOST_TOKENS else 0


IMAGE_TOKENS = 1_500
"""About what one image costs, whatever its size in bytes: servers scale larger ones down."""


class TextView:
    """The messages as a model may see them. Each is looked at once, and one that changes for it is then encoded once."""

    def __init__(self) -> None:
        self._seen: SentPieces[LLMMessage] = SentPieces()

    def of(self, messages: list[LLMMessage], model: ModelConfig) -> list[LLMMessage]:
        if model.supports_images:
            return messages
        new = messages[self._seen.keep(messages, model.name) :]
        self._seen.pieces += [without_images(m, model.name) if m.images else m for m in new]
        return self._seen.pieces[:]


def without_images(message: LLMMessage, model: str) -> LLMMessage:
    lines = [_image_line(image, model) for image in message.images or ()]
    return message.changed(content="\n".join([message.content, *lines] if message.content else lines), images=None)


def estimated_tokens(body: bytes, messages: list[LLMMessage]) -> int:
    """Of a request with these messages: four bytes to a token, and a flat figure for each image."""
    images = [image for message in messages for image in message.images or ()]
    return max(0, len(body) - sum(len(image.data) for image in images)) // 4 + IMAGE_TOKENS * len(images)


def _image_line(image: ImageContent, model: str) -> str:
    size = max(1, round(len(image.data) * 3 / 4 / 1024))
    return f"[image: {image.media_type}, {size} KB, not shown: {model} takes no images]"
