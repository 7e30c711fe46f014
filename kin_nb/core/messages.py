"""Messages between the agent and a model, and the tools that a model is offered: pure values (seed 002)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, auto
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from kin_nb.core.records import CallOrigin


def _content_before(v: Any) -> str:
    if isinstance(v, str):
        return v
    if isinstance(v, list):
        return "\n".join(p["text"] if isinstance(p, dict) and isinstance(p.get("text"), str) else str(p) for p in v)
    return str(v)


Content = Annotated[str, BeforeValidator(_content_before)]


class Role(StrEnum):
    system = auto()
    user = auto()
    assistant = auto()
    tool = auto()


class FunctionCall(BaseModel):
    name: str | None = None
    arguments: str | None = None
    """JSON text exactly as the model wrote it; it may not parse."""


class ToolCall(BaseModel):
    """`id` is unique in the conversation and nine characters long in the agent's own; `origin` has the server's."""

    id: str | None = None
    index: int | None = None
    function: FunctionCall
    type: str = "function"
    origin: CallOrigin | None = None


class ImageContent(BaseModel):
    """A picture in a message: `data` is base64 of a PNG, JPEG, GIF or WebP file. Sent only to models that take images."""

    model_config = ConfigDict(frozen=True)

    media_type: str
    data: str


class LLMMessage(BaseModel):
    """One message of the conversation. Frozen: history only appends, so a message is encoded for the wire once.

    Beyond seed 002: `images` go with the content, and `reasoning_blocks` are a provider's own reasoning as it came
    (Anthropic's signed thinking), sent back unchanged to the API style that gave it and never recorded. `origin` is what a
    server sent with a reply for itself. `hint`, of a tool's answer: its last line, where that is advice and no result.
    `is_stub`: it stands for a longer answer that was pruned. Neither is in a dump: the content says it all.
    """

    model_config = ConfigDict(frozen=True)

    role: Role
    content: Content | None = None
    reasoning_content: Content | None = None
    tool_calls: list[ToolCall] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    images: list[ImageContent] | None = None
    reasoning_blocks: list[dict[str, Any]] | None = None
    origin: CallOrigin | None = None
    hint: str = Field(default="", exclude=True)
    is_stub: bool = Field(default=False, exclude=True)

    _encoded: dict[str, bytes] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Equal fields; what was encoded already makes no difference."""
        return isinstance(other, LLMMessage) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # its lists have none

    def changed(self, **fields: Any) -> LLMMessage:
        """A copy with other fields. It is encoded anew, which `model_copy` would not do."""
        return LLMMessage.model_construct(**{**self.__dict__, **fields})

    def encoded(self, style: str, encode: Callable[[LLMMessage], bytes]) -> bytes:
        """The message as bytes for API style `style`; `encode` runs on the first request only."""
        found = self._encoded.get(style)
        if found is None:
            found = self._encoded[style] = encode(self)
        return found


class LLMUsage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class BackendNotice(BaseModel):
    """What a backend does after a failed request, told before it does it: request number `attempt` of at most `tries`
    after `seconds`, or, when `attempt` is 0, another request that `message` explains."""

    message: str
    seconds: float = 0.0
    attempt: int = 0
    tries: int = 0


class LLMChunk(BaseModel):
    message: LLMMessage
    usage: LLMUsage | None = None
    finish_reason: str | None = None
    """Set on the last chunk of a complete reply (beyond seed 002: "the stream ended" does not mean "complete")."""
    notice: BackendNotice | None = None
    """Such a chunk has an empty message, and comes before those of the reply."""


class AvailableFunction(BaseModel):
    name: str
    description: str
    parameters: dict[str, Any]


class AvailableTool(BaseModel):
    type: Literal["function"] = "function"
    function: AvailableFunction


StrToolChoice = Literal["auto", "none", "any", "required"]
