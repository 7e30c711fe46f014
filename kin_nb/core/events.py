"""What `Agent.act` yields (seed 002, and a few more): pure values for whoever shows or counts them.

An event says what happened; the record of it (`core.session.records`) says what survives. Every view of a turn can be
rebuilt from the records alone, so events carry the record that they announce where there is one.
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
    """The reply is complete: `step.calls` holds every tool call it asks for, none of them run yet."""

    step: RecordedStep
    finish_reason: str = ""
    """As the server said it: stop, tool_calls, length, ..."""


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
    """More of a running tool's output (live tail); the whole of it comes with the result."""

    tool_call_id: str
    text: str


class ToolResultEvent(BaseEvent):
    tool_name: str
    tool_class: type[BaseTool] | None  # type: ignore[type-arg]  # likewise
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
    """A state that can be gone back to (`Agent.revert_to`): before a turn's prompt, or before one of its steps."""

    checkpoint_id: int
    kind: Literal["turn", "step"]


class LoopEvent(BaseEvent):
    """The model repeats itself. `kind`: exact, cycle, near or text; `message`: what it is told, or why the turn stops."""

    kind: str
    count: int
    action: Literal["remind", "ask", "stop"]
    message: str


class PruneEvent(BaseEvent):
    """Old tool results gave way to stubs. `calls`: their ids."""

    old_context_tokens: int
    new_context_tokens: int
    calls: tuple[str, ...]


class DMailEvent(BaseEvent):
    """The model went back to a checkpoint, with a message from what has been its future."""

    checkpoint_id: int
    message: str


class SubagentEvent(BaseEvent):
    """What a subagent does, inside the call that runs it."""

    tool_call_id: str
    event: BaseEvent


class WarningEvent(BaseEvent):
    """Something could not be used (a broken tool file, a server that does not answer); the turn goes on without it."""

    message: str


class RetryEvent(BaseEvent):
    """A request failed and is sent again after `seconds`: request number `attempt` of at most `tries`.

    `message`: the reason and the time, in one line.
    """

    message: str
    seconds: float
    attempt: int
    tries: int


class ErrorEvent(BaseEvent):
    """The turn cannot go on. `message` is for the person: what happened, then what to do.

    `kind`: the error's class, "" for none; `status`: the HTTP status that the model server answered with, if it did.
    """

    message: str
    kind: str = ""
    status: int | None = None


class TurnEndEvent(BaseEvent):
    record: TurnRecord


class FlowStepEvent(BaseEvent):
    """A flow comes to a node, whose turn follows; to END, which has none. `move` counts from 1."""

    flow: str
    node: str
    """Its label."""
    move: int
