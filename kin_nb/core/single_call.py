"""One call of a tool that belongs to no turn: decided, audited and run as one that a model's reply asks for."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

from kin_nb.core.events import StepReplyEvent, ToolResultEvent
from kin_nb.core.messages import FunctionCall, LLMMessage, Role, ToolCall
from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.core.turn_context import TurnContext


async def run_single_call(
    context: TurnContext, name: str, arguments: dict[str, Any], *, call_id: str, turn: int
) -> ToolResultEvent:
    """Run the call with the settings, the mode, the grants and the approver of `context`. Asks no model.

    `context` must be one that no turn uses, with an UnwrittenLog: the call enters its conversation. `turn`: for the audit
    log. What the tool raises is the result's error, as in a turn.
    """
    text = json.dumps(arguments)
    call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=text))
    step = RecordedStep(calls=(RecordedCall(id=call_id, name=name, arguments=text),))
    recorder = context.journal.recorder(TurnRecord(turn=turn, prompt=""))
    context.conversation.history.append(LLMMessage(role=Role.assistant, tool_calls=[call]))
    executor = context.executor(recorder)
    found: ToolResultEvent | None = None
    async with aclosing(executor.run([call], StepReplyEvent(step=recorder.reply(step)))) as events:
        async for event in events:
            found = event if isinstance(event, ToolResultEvent) else found
    if found is None:
        raise RuntimeError(f"the call of {name} has no result")
    return found
