"""Other names of the events, as some agents' documents use them: the same classes.

`ToolCall` here is the event; the call in a message is `core.types.ToolCall`.
"""

from __future__ import annotations

from kin_nb.core.events import (
    ApprovalRequestEvent,
    ErrorEvent,
    StepReplyEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnStartEvent,
)

AgentStart = TurnStartEvent
ToolCall = ToolCallEvent
ToolResult = ToolResultEvent
LLMResponse = StepReplyEvent
ApprovalRequired = ApprovalRequestEvent
Error = ErrorEvent

__all__ = ["AgentStart", "ApprovalRequired", "Error", "LLMResponse", "ToolCall", "ToolResult"]
