"""LoopGuard: act on loops: remind the model, ask the user, stop the turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kin_nb.core.callback_errors import failure, must_propagate, unless_cancelled
from kin_nb.core.context.loop_detector import Loop, LoopDetector
from kin_nb.core.event_stream import Emit
from kin_nb.core.events import AssistantEvent, BaseEvent, LoopEvent, ReasoningEvent
from kin_nb.core.questions import Question
from kin_nb.core.records import RecordedStep
from kin_nb.core.safety.approvals import Approvals
from kin_nb.core.tool_types import ToolError

CONTINUE, STOP = "Continue", "Stop here"
"""The answers to choose from."""


class LoopGuard:
    """The loop detection of one conversation.

    `enabled` is called each time, because settings change. `remind` adds a note to the next request. `approvals` asks the
    user whether to continue; without an answer the turn stops.
    """

    def __init__(
        self,
        detector: LoopDetector,
        approvals: Approvals,
        *,
        enabled: Callable[[], bool],
        remind: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self.detector = detector
        self._approvals, self._enabled, self._remind, self._warn = approvals, enabled, remind, warn

    def forget(self) -> None:
        """Start again: a turn begins, or the conversation has changed."""
        self.detector.forget()

    def forget_results(self, call_ids: Iterable[str]) -> None:
        """Allow these calls again: the model no longer sees their results."""
        self.detector.forget_results(call_ids)

    async def after_step(self, step: RecordedStep, emit: Emit) -> LoopEvent | None:
        """Look at a step whose calls were answered, emit an event for each loop, and act on it.

        Returns the event that ends the turn: the loop reached its last threshold, the user chose to stop, or the user could not
        be asked.
        """
        self.detector.end_reply()
        for loop in self._found(step) if self._enabled() else ():
            event = _event(loop)
            await emit(event)
            if loop.action == "remind":
                self._remind(loop.message)
            elif loop.action == "stop":
                return event
            elif await self._is_allowed(loop):
                self.detector.allow()
            else:
                event = _event(loop, action="stop")
                await emit(event)
                return event
        return None

    def repeating_text(self, event: BaseEvent) -> LoopEvent | None:
        """Look at a piece of a reply while it streams. Returns the event that ends the turn when its text repeats without end."""
        if not (self._enabled() and isinstance(event, AssistantEvent | ReasoningEvent)):
            return None
        loop = self.detector.observe_text(event.content)
        return None if loop is None else _event(loop, action="stop")

    def _found(self, step: RecordedStep) -> list[Loop]:
        found = []
        for call in step.calls:
            if not call.is_repeated:
                ok = call.status == "ok" and not call.exit
                found.append(self.detector.observe(call.name, call.arguments, call.output, ok=ok, call_id=call.id))
        return [loop for loop in found if loop is not None]

    async def _is_allowed(self, loop: Loop) -> bool:
        ask = self._approvals.ask_question
        try:
            return await unless_cancelled(ask(Question(loop.message, (STOP, CONTINUE)))) == CONTINUE
        except ToolError:
            return False
        except BaseException as error:
            if must_propagate(error):
                raise
            self._warn(f"The question whether to continue was not answered: {failure(ask, error)}")
            return False


def _event(loop: Loop, action: str | None = None) -> LoopEvent:
    return LoopEvent.model_validate(
        {"kind": loop.kind, "count": loop.count, "action": action or loop.action, "message": loop.message}
    )
