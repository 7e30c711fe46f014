"""LoopGuard: what happens when a turn goes in circles: the model is reminded, the user asked, the turn stopped (seed 004)."""

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

GO_ON, STOP = "Go on", "Stop here"
"""What the user may answer."""


class LoopGuard:
    """`detector` finds loops; `enabled`: asked each time, since settings change. `remind` adds a note to the next request.

    `approvals` asks the user whether to continue; without an answer the turn stops.
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
        """A turn begins, or the conversation is another one."""
        self.detector.forget()

    def forget_results(self, call_ids: Iterable[str]) -> None:
        """The model no longer sees these results: to ask for one of them again is no loop."""
        self.detector.forget_results(call_ids)

    async def after_step(self, step: RecordedStep, emit: Emit) -> LoopEvent | None:
        """Look at a step whose calls were answered, and report each loop.

        Returns the event with which the turn must end, because it repeats itself again and again, or because the user says so
        or cannot be asked.
        """
        for loop in self._found(step) if self._enabled() else ():
            event = _event(loop)
            await emit(event)
            if loop.action == "remind":
                self._remind(loop.message)
            elif loop.action == "stop":
                return event
            elif await self._is_wanted(loop):
                self.detector.go_on()
            else:
                event = _event(loop, action="stop")
                await emit(event)
                return event
        return None

    def repeating_text(self, event: BaseEvent) -> LoopEvent | None:
        """Look at a reply while it streams: text that repeats without an end is always a reason to stop."""
        if not (self._enabled() and isinstance(event, AssistantEvent | ReasoningEvent)):
            return None
        loop = self.detector.observe_text(event.content)
        return None if loop is None else _event(loop, action="stop")

    def _found(self, step: RecordedStep) -> list[Loop]:
        own = [call for call in step.calls if not call.is_repeated]
        found = [self.detector.observe_reply(step.content)]
        for call in own:
            ok = call.status == "ok" and not call.exit
            found.append(self.detector.observe(call.name, call.arguments, call.output, ok=ok, call_id=call.id))
        return [loop for loop in found if loop is not None]

    async def _is_wanted(self, loop: Loop) -> bool:
        ask = self._approvals.ask_question
        try:
            return await unless_cancelled(ask(Question(loop.message, (STOP, GO_ON)))) == GO_ON
        except ToolError:
            return False
        except BaseException as error:
            if must_propagate(error):
                raise
            self._warn(f"The question whether to go on was not answered: {failure(ask, error)}")
            return False


def _event(loop: Loop, action: str | None = None) -> LoopEvent:
    return LoopEvent.model_validate(
        {"kind": loop.kind, "count": loop.count, "action": action or loop.action, "message": loop.message}
    )
