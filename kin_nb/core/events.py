"""The events that `Agent.act` yields: pure values, for display and for counting.

An event is not stored; the record (`core.records`) is. Every view of a turn can be rebuilt from its records, so an event
carries the record that it announces, if there is one.
"""

from __future__ import annotations

from abc import ABC
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kin_nb.core.records import RecordedCall, RecordedCompaction, RecordedStep, TurnRecord
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.tools.base import BaseTool


class BaseEvent(BaseModel, ABC):
    model_config = ConfigDict(arbitrary_types_allowed=True)


class TurnStartEvent(BaseEvent):
    turn: int
    prompt: str


class StepStartEvent(BaseEvent):
    """A request is about to be sent; `step` counts from 1 within the turn."""

    step: int


class AssistantEvent(BaseEvent):
    """A piece of the reply's text (a delta while streaming)."""

    content: str
    stopped_by_middleware: bool = False


class ReasoningEvent(BaseEvent):
    content: str


class StepReplyEvent(BaseEvent):
    """The reply is complete: `step.calls` holds its tool calls, none of which has run yet."""

    step: RecordedStep
    finish_reason: str = ""
    """The server's value: stop, tool_calls, length, ..."""


class ToolCallEvent(BaseEvent):
    tool_name: str
    tool_class: type[BaseTool]  # type: ignore[type-arg]  # pydantic takes no parameters here
    args: BaseModel
    tool_call_id: str


class ApprovalRequestEvent(BaseEvent):
    request: ApprovalRequest


class ApprovalDecisionEvent(BaseEvent):
    tool_call_id: str
    decision: ApprovalDecision


class ToolOutputEvent(BaseEvent):
    """A piece of the output of a running tool; the result has the full output."""

    tool_call_id: str
    text: str


class ToolResultEvent(BaseEvent):
    tool_name: str
    tool_class: type[BaseTool] | None  # type: ignore[type-arg]  # pydantic takes no parameters here
    result: BaseModel | None = None
    error: str | None = None
    skipped: bool = False
    skip_reason: str | None = None
    duration: float | None = None
    tool_call_id: str
    call: RecordedCall | None = None
    """The same as it is recorded and drawn."""


class CompactStartEvent(BaseEvent):
    current_context_tokens: int
    threshold: int


class CompactEndEvent(BaseEvent):
    old_context_tokens: int
    new_context_tokens: int
    summary_length: int
    compaction: RecordedCompaction | None = None
    """The same as it is recorded and drawn."""


class CheckpointEvent(BaseEvent):
    """A checkpoint for `Agent.revert_to`: before a turn's prompt, or before one of its steps."""

    checkpoint_id: int
    kind: Literal["turn", "step"]


class LoopEvent(BaseEvent):
    """The model repeats itself. `kind`: exact, cycle, near or text; `message`: the reminder to it, or why the turn stops."""

    kind: str
    count: int
    action: Literal["remind", "ask", "stop"]
    message: str


class PruneEvent(BaseEvent):
    """Old tool results were replaced by placeholders. `calls`: their ids."""

    old_context_tokens: int
    new_context_tokens: int
    calls: tuple[str, ...]


class DMailEvent(BaseEvent):
    """The model rewound the conversation to a checkpoint, with a message to itself."""

    checkpoint_id: int
    message: str


class SubagentEvent(BaseEvent):
    """An event of a subagent, inside the call that runs it."""

    tool_call_id: str
    event: BaseEvent


class WarningEvent(BaseEvent):
    """Something could not be used (a broken tool file, a server that does not answer); the turn continues without it."""

    message: str


class RetryEvent(BaseEvent):
    """A request failed and is sent again after `seconds`: attempt number `attempt` of at most `tries`.

    `message`: the reason and the waiting time, in one line.
    """

    message: str
    seconds: float
    attempt: int
    tries: int


class ErrorEvent(BaseEvent):
    """The turn cannot continue. `message` is for the user: what happened, then what to do.

    `kind`: the error's class, "" for none; `status`: the HTTP status that the model server answered with, if it did.
    """

    message: str
    kind: str = ""
    status: int | None = None


class TurnEndEvent(BaseEvent):
    record: TurnRecord


class FlowStepEvent(BaseEvent):
    """A flow has reached a node, whose turn follows, or END, which has none. `move` counts from 1."""

    flow: str
    node: str
    """Its label."""
    move: int
