"""Messages between the agent and a model, and the tools that are offered to a model: pure values (seed 002)."""

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
    """JSON text exactly as the model wrote it; it may be invalid."""


class ToolCall(BaseModel):
    """A tool call in a reply. `id` is unique in the conversation; ids that kin_nb makes have nine characters, and then
    `origin` has the server's id.
    """

    id: str | None = None
    index: int | None = None
    function: FunctionCall
    type: str = "function"
    origin: CallOrigin | None = None


class ImageContent(BaseModel):
    """An image in a message: `data` is base64 of a PNG, JPEG, GIF or WebP file. Sent only to models that accept images."""

    model_config = ConfigDict(frozen=True)

    media_type: str
    data: str


class LLMMessage(BaseModel):
    """One message of the conversation. It is frozen, so that it is encoded for requests only once.

    Beyond seed 002: `images` are sent with the content. `reasoning_blocks` are a provider's own form of reasoning
    (Anthropic's signed thinking): they are sent back unchanged to the same API style, and never recorded. `origin`: what
    the server sent with a reply and expects back. `hint`: the last line of a tool result, when it is advice. `is_stub`:
    the content replaces a longer tool result that was shortened. `note`: what kin_nb adds below the content in requests.
    Dumps omit `hint`, `is_stub` and `note`; `content` has the text.
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
    note: str = Field(default="", exclude=True)

    _encoded: dict[str, bytes] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Compare the fields, and ignore the cached encodings."""
        return isinstance(other, LLMMessage) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # its lists have none

    def changed(self, **fields: Any) -> LLMMessage:
        """Return a copy with other fields, without the cached encodings, which `model_copy` would keep."""
        return LLMMessage.model_construct(**{**self.__dict__, **fields})

    def with_note(self) -> LLMMessage:
        """Return the message as the model gets it: the content, then the note."""
        if not self.note:
            return self
        note = f"[kin_nb: {self.note}]"
        return self.changed(content=f"{self.content}\n\n{note}" if self.content else note, note="")

    def encoded(self, style: str, encode: Callable[[LLMMessage], bytes]) -> bytes:
        """Return the message with its note as bytes for API style `style`; `encode` runs only the first time."""
        found = self._encoded.get(style)
        if found is None:
            found = self._encoded[style] = encode(self.with_note())
        return found


class LLMUsage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class BackendNotice(BaseModel):
    """A notice from a backend that it will send a failed request again.

    `attempt` 1 or more: it sends request number `attempt`, of at most `tries`, after `seconds`. `attempt` 0: it sends a
    different request, and `message` says why.
    """

    message: str
    seconds: float = 0.0
    attempt: int = 0
    tries: int = 0


class LLMChunk(BaseModel):
    message: LLMMessage
    usage: LLMUsage | None = None
    finish_reason: str | None = None
    """Set on the last chunk of a complete reply. Beyond seed 002, because a stream can also end before the reply does."""
    notice: BackendNotice | None = None
    """A chunk with a notice has an empty message, and comes before the chunks of the reply."""


class AvailableFunction(BaseModel):
    name: str
    description: str
    parameters: dict[str, Any]


class AvailableTool(BaseModel):
    type: Literal["function"] = "function"
    function: AvailableFunction


StrToolChoice = Literal["auto", "none", "any", "required"]
