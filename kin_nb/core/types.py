"""Messages, statistics and callbacks: pure values (seed 002). Events live in events.py and are re-exported here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum, auto
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from kin_nb.core.session.records import CallOrigin


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


class AgentStats(BaseModel):
    """Counters of one session; tokens are the provider's own figures, prices are USD per million tokens."""

    steps: int = 0
    session_prompt_tokens: int = 0
    session_completion_tokens: int = 0
    context_tokens: int = 0
    last_turn_prompt_tokens: int = 0
    last_turn_completion_tokens: int = 0
    last_turn_duration: float = 0.0
    tokens_per_second: float = 0.0
    tool_calls_agreed: int = 0
    tool_calls_rejected: int = 0
    tool_calls_failed: int = 0
    tool_calls_succeeded: int = 0
    input_price_per_million: float = 0.0
    output_price_per_million: float = 0.0

    _settled: tuple[int, int, float] = PrivateAttr(default=(0, 0, 0.0))
    _before: AgentStats | None = PrivateAttr(default=None)

    def anew(self) -> AgentStats:
        """For the session's next conversation: all counts from nothing, but for those that limits look at."""
        stats = AgentStats()
        stats._before = self
        return stats

    def rejoined(self) -> AgentStats:
        """Of the conversation before, which goes on after all: with what was paid since, before anything was said."""
        if self._before is None:
            return self
        stats = self._before.model_copy()
        stats.session_prompt_tokens += self.session_prompt_tokens
        stats.session_completion_tokens += self.session_completion_tokens
        cost = self._before.session_cost + self.session_cost
        stats._settled = (stats.session_prompt_tokens, stats.session_completion_tokens, cost)  # noqa: SLF001  (its own class)
        return stats

    def set_prices(self, input_price: float, output_price: float) -> None:
        """From now on: what was used at other prices keeps its cost."""
        if (input_price, output_price) != (self.input_price_per_million, self.output_price_per_million):
            self._settled = (self.session_prompt_tokens, self.session_completion_tokens, self.session_cost)
            self.input_price_per_million, self.output_price_per_million = input_price, output_price

    @property
    def session_total_llm_tokens(self) -> int:
        return self.session_prompt_tokens + self.session_completion_tokens

    @property
    def last_turn_total_tokens(self) -> int:
        return self.last_turn_prompt_tokens + self.last_turn_completion_tokens

    @property
    def session_cost(self) -> float:
        prompt, completion, settled = self._settled
        paid = (self.session_prompt_tokens - prompt) * self.input_price_per_million
        paid += (self.session_completion_tokens - completion) * self.output_price_per_million
        return settled + paid / 1_000_000

    @property
    def all_steps(self) -> int:
        """With those of the conversations that were cleared."""
        return self.steps + (self._before.all_steps if self._before is not None else 0)

    @property
    def all_cost(self) -> float:
        """With that of the conversations that were cleared."""
        return self.session_cost + (self._before.all_cost if self._before is not None else 0.0)


class SessionInfo(BaseModel):
    session_id: str
    start_time: str
    message_count: int
    stats: AgentStats
    save_dir: str


class SessionMetadata(BaseModel):
    session_id: str
    start_time: str
    end_time: str | None
    git_commit: str | None
    git_branch: str | None
    environment: dict[str, str | None]
    auto_approve: bool = False
    username: str


class ApprovalResponse(StrEnum):
    YES = "y"
    NO = "n"


AsyncApprovalCallback: TypeAlias = Callable[[str, BaseModel, str], Awaitable[tuple[ApprovalResponse, str | None]]]
SyncApprovalCallback: TypeAlias = Callable[[str, BaseModel, str], tuple[ApprovalResponse, str | None]]
ApprovalCallback: TypeAlias = AsyncApprovalCallback | SyncApprovalCallback


class OutputFormat(StrEnum):
    TEXT = auto()
    JSON = auto()
    STREAMING = auto()
    EVENTS = auto()
    """Every event as a line of JSON (core.wire); beyond seed 002."""


from kin_nb.core.events import (  # noqa: E402  (events need the values above; seed 002 imports both from here)
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    AssistantEvent,
    BaseEvent,
    CheckpointEvent,
    CompactEndEvent,
    CompactStartEvent,
    DMailEvent,
    ErrorEvent,
    FlowStepEvent,
    LoopEvent,
    PruneEvent,
    ReasoningEvent,
    RetryEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnEndEvent,
    TurnStartEvent,
    WarningEvent,
)

__all__ = [
    "AgentStats",
    "ApprovalCallback",
    "ApprovalDecisionEvent",
    "ApprovalRequestEvent",
    "ApprovalResponse",
    "AssistantEvent",
    "AsyncApprovalCallback",
    "AvailableFunction",
    "AvailableTool",
    "BackendNotice",
    "BaseEvent",
    "CallOrigin",
    "CheckpointEvent",
    "CompactEndEvent",
    "CompactStartEvent",
    "Content",
    "DMailEvent",
    "ErrorEvent",
    "FlowStepEvent",
    "FunctionCall",
    "ImageContent",
    "LLMChunk",
    "LLMMessage",
    "LLMUsage",
    "LoopEvent",
    "OutputFormat",
    "PruneEvent",
    "ReasoningEvent",
    "RetryEvent",
    "Role",
    "SessionInfo",
    "SessionMetadata",
    "StepReplyEvent",
    "StepStartEvent",
    "StrToolChoice",
    "SubagentEvent",
    "SyncApprovalCallback",
    "ToolCall",
    "ToolCallEvent",
    "ToolOutputEvent",
    "ToolResultEvent",
    "TurnEndEvent",
    "TurnStartEvent",
    "WarningEvent",
]
