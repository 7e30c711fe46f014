"""What every wire format needs: JSON that strict servers take, and a history encoded as far as it is new."""

from __future__ import annotations

import json
from operator import is_
from typing import Any, Generic, TypeVar

from kin_nb.core.types import ImageContent, LLMMessage, Role

P = TypeVar("P")


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


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value >= 0 else 0
