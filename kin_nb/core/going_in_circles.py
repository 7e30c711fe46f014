"""What is done about a turn that goes in circles: the model reminded, the person asked, the turn stopped (seed 004)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from kin_nb.core.callback_errors import failure, must_propagate, unless_cancelled
from kin_nb.core.context.loops import Loop
from kin_nb.core.events import AssistantEvent, BaseEvent, LoopEvent, ReasoningEvent
from kin_nb.core.questions import Question
from kin_nb.core.session.records import RecordedStep
from kin_nb.core.tools.base import ToolError

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

GO_ON, STOP = "Go on", "Stop here"
"""What the person may answer."""


async def look_for_loops(agent: Agent, step: RecordedStep) -> AsyncGenerator[LoopEvent, None]:
    """After a step's calls were answered. A reminder goes into the next request.

    Ends after an event whose action is "stop": the turn must end there, because it goes on and on, or because the person
    says so or is not there to be asked.
    """
    if not agent.config.loop_detection:
        return
    for loop in _found(agent, step):
        yield _event(loop)
        if loop.action == "remind":
            agent.conversation.notes.append(loop.message)
            agent.conversation.reminders.append(loop.message)
        elif loop.action == "stop":
            return
        elif await _wanted(agent, loop):
            agent.loops.go_on()
        else:
            yield _event(loop, action="stop")
            return


def endless(agent: Agent, event: BaseEvent) -> LoopEvent | None:
    """While a reply streams: text that says the same for ever. Always a reason to stop."""
    if not (agent.config.loop_detection and isinstance(event, AssistantEvent | ReasoningEvent)):
        return None
    loop = agent.loops.observe_text(event.content)
    return None if loop is None else _event(loop, action="stop")


def _found(agent: Agent, step: RecordedStep) -> list[Loop]:
    own = [call for call in step.calls if not call.is_repeated]
    found = [agent.loops.observe_reply(step.content)]
    for call in own:
        ok = call.status == "ok" and not call.exit
        found.append(agent.loops.observe(call.name, call.arguments, call.output, ok=ok, call_id=call.id))
    return [loop for loop in found if loop is not None]


async def _wanted(agent: Agent, loop: Loop) -> bool:
    try:
        return await unless_cancelled(agent.approvals.ask_question(Question(loop.message, (STOP, GO_ON)))) == GO_ON
    except ToolError:
        return False
    except BaseException as error:
        if must_propagate(error):
            raise
        agent.journal.warn(
            f"The question whether to go on was not answered: {failure(agent.approvals.ask_question, error)}"
        )
        return False


def _event(loop: Loop, action: str | None = None) -> LoopEvent:
    return LoopEvent.model_validate(
        {"kind": loop.kind, "count": loop.count, "action": action or loop.action, "message": loop.message}
    )
