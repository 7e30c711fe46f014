"""CellView: show a turn in its cell while it runs. It consumes events; `kin_nb.render` makes every card.

One display per reply and per tool call, created in call order and updated in place, then the summary line: the same number
and order that playback and save produce, which is what nbval compares.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from kin_nb.core.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    AssistantEvent,
    BaseEvent,
    CheckpointEvent,
    CompactEndEvent,
    CompactStartEvent,
    DMailEvent,
    LoopEvent,
    PruneEvent,
    ReasoningEvent,
    RetryEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnStartEvent,
    WarningEvent,
)
from kin_nb.core.records import RecordedCall, RecordedCompaction, RecordedDMail, RecordedStep, TurnRecord
from kin_nb.core.text import first_line
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.streaming.display import Display, Progress
from kin_nb.notebook.streaming.reply_view import ReplyView
from kin_nb.notebook.tap import TapRun
from kin_nb.render import Output, render_call, render_compaction, render_reply, render_step_notes, render_summary_line
from kin_nb.render.images import render_images, render_prompt_images
from kin_nb.render.summary import describe_call
from kin_nb.render.tool_parts import subagent_line
from kin_nb.render.turn import render_attachments

TAIL = 2_000


class CellView:
    """Show one turn: `handle` takes each event, then `finish` takes the turn's record."""

    def __init__(self, io: CellOutput, *, figures: Callable[[], str] = str, display: Display | None = None) -> None:
        self._io = io
        self.run: TapRun | None = None
        """The cell's run, when its front end may draw widgets: replies are then written into those."""
        self._progress = Progress(lambda: Display(io), figures, display)
        self._turn = self._step = 0
        self._next = 1
        """The step that follows a compaction which happens now."""
        self._text = self._coming = RecordedStep()
        """The step as far as it is known, and what is known of the one after it."""
        self._before: dict[str, Display] = {}
        """The notes above the reply, by kind."""
        self._checkpoints: dict[int, int] = {}
        """The step after each checkpoint of this turn."""
        self._reply: ReplyView | None = None
        self._calls: dict[str, tuple[Display, RecordedCall]] = {}
        self._without_pictures: tuple[str, ...] = ()
        """Calls of the last reply: what they give to see comes when all of them have ended."""
        self._tails: dict[str, str] = {}
        self._inside: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """For each call that runs a subagent: the subagent's calls by id, a line each."""
        self._waiting: Counter[str] = Counter()
        """Open questions in the display of each call: nothing is drawn over their buttons."""
        self._asked = False
        """The user is asked whether the turn should continue."""
        self._warned = ""
        """The last warning since the first step: shown with what takes long, until the summary line has all of them."""

    def begin(self, record: TurnRecord) -> None:
        """Show the card of the attachments that were sent with the prompt."""
        for output in [*render_attachments(record), *render_prompt_images(record)]:
            self._progress.take().draw(output, settled=True)

    def handle(self, event: BaseEvent) -> None:
        match event:
            case TurnStartEvent():
                self._turn = event.turn
            case StepStartEvent():
                self._step = self._next = event.step
                self._redraw_asked()
                self._reply = None
                self._before = {}
                self._text, self._coming = self._coming, RecordedStep()
            case AssistantEvent(stopped_by_middleware=False):
                self._stream(content=self._text.content + event.content)
            case ReasoningEvent():
                self._stream(reasoning=self._text.reasoning + event.content)
            case StepReplyEvent():
                self._settle_reply(event.step)
            case CompactEndEvent(compaction=RecordedCompaction() as compaction):
                self._progress.take().draw(self._compaction_card(compaction), settled=True)
            case ApprovalDecisionEvent() | ToolOutputEvent() | SubagentEvent():
                self._within_call(event.tool_call_id, event)
            case ToolResultEvent(call=RecordedCall() as call):
                self._settle_call(call)
                self._draw_pictures()
            case _:
                self._between_steps(event)
        self._say_what_takes_long(event)

    def display_of(self, call_id: str) -> str:
        """Return the display id of a call's card, which the approval card replaces while it waits.

        "" is a question about the turn: it takes the place of the last call.
        """
        return self._calls[call_id or self._last_call][0].display_id

    def waiting_card(self, call_id: str) -> Output:
        """Return the static card for clients without widgets, and for files saved meanwhile. The question takes the display."""
        call_id = call_id or self._last_call
        display, call = self._calls[call_id]
        display.cancel()
        self._waiting[call_id] += 1
        return render_call(call, turn=self._turn, step=self._step, waiting=True)

    def draw_call(self, call_id: str) -> None:
        self._calls[call_id][0].draw(self._call_card(call_id))

    def finish(self, record: TurnRecord, carried: dict[str, Any]) -> None:
        """Settle the cards that an interrupt left open, then show the summary line, with `carried` in its metadata."""
        self._redraw_asked()
        if self._reply is not None and record.steps:
            self._settle_reply(record.steps[-1])
        for call in record.steps[-1].calls if record.steps else ():
            if call.id in self._calls and self._calls[call.id][1].status == "pending":
                self._settle_call(call)
        self._draw_pictures()
        self._progress.rest()
        for output in self._ending(record):
            output.metadata.update(carried)
            self._progress.take().draw(output, settled=True)

    def _stream(self, **text: str) -> None:
        self._text = self._text.model_copy(update=text)
        if not (self._text.content.strip() or self._text.reasoning.strip()):
            return
        if self._reply is None:
            self._progress.rest()
            self._draw_before(self._text)
            self._reply = self._new_reply()
        self._reply.show(self._text)

    def _settle_reply(self, step: RecordedStep) -> None:
        self._next = self._step + 1
        self._draw_before(step, settled=True)
        if step.content.strip() or step.reasoning.strip():
            (self._reply or self._new_reply()).settle(step)
        self._reply = None
        for call in step.calls:
            self._calls[call.id] = (self._progress.take(), call)
            self.draw_call(call.id)
        self._without_pictures = tuple(call.id for call in step.calls)

    def _draw_pictures(self) -> None:
        calls = [self._calls[call_id][1] for call_id in self._without_pictures]
        if all(call.status != "pending" for call in calls):
            self._without_pictures = ()
            for output in [picture for call in calls for picture in self._pictures(call)]:
                self._progress.take().draw(output, settled=True)

    def _pictures(self, call: RecordedCall) -> list[Output]:
        return render_images(call, turn=self._turn, step=self._step)

    def _new_reply(self) -> ReplyView:
        return ReplyView(self._progress.take(), self._reply_card, self.run)

    def _say_what_takes_long(self, event: BaseEvent) -> None:
        """Show in the progress line what is running: the model, a compaction or calls. Paused while the user is asked."""
        match event:
            case StepStartEvent():
                self._doing(f"step {event.step}: waiting for the model")
            case RetryEvent(message=reason) | SubagentEvent(event=RetryEvent(message=reason)):
                self._progress.doing_now(f"step {self._step}: {reason}")
            case WarningEvent() if self._step:
                self._warned = first_line(event.message)
                self._doing(f"step {self._step}")
            case CompactStartEvent():
                self._doing("summarizing the conversation")
            case ApprovalRequestEvent() | SubagentEvent(event=ApprovalRequestEvent()):
                self._progress.rest()
            case (
                StepReplyEvent()
                | ToolResultEvent()
                | ApprovalDecisionEvent()
                | SubagentEvent(event=ApprovalDecisionEvent())
            ):
                running = [call for _, call in self._calls.values() if call.status == "pending"]
                names = ", ".join(f"{call.name} {describe_call(call)}".strip() for call in running)
                self._doing(f"step {self._step}: {names or 'waiting for the model'}")

    def _doing(self, what: str) -> None:
        self._progress.doing(f"{what} · warning: {self._warned}" if self._warned else what)

    def _within_call(self, call_id: str, event: BaseEvent) -> None:
        match event:
            case ApprovalDecisionEvent() | SubagentEvent(event=ApprovalDecisionEvent()):
                self._answered(call_id)
            case ToolOutputEvent():
                self._show_tail(call_id, self._tails.get(call_id, "") + event.text)
            case SubagentEvent(event=StepReplyEvent(step=step)):
                self._show_inside(call_id, step.calls)
            case SubagentEvent(event=ToolResultEvent(call=RecordedCall() as call)):
                self._show_inside(call_id, (call,))

    def _show_inside(self, call_id: str, calls: tuple[RecordedCall, ...]) -> None:
        """Show a subagent's calls as the live output of its own call."""
        lines = self._inside[call_id]
        lines.update({call.id: subagent_line(call) for call in calls})
        self._show_tail(call_id, "\n".join(lines.values()))

    def _answered(self, call_id: str) -> None:
        """Draw the call in its place again, unless its subagent has already asked the next question."""
        self._waiting[call_id] = max(0, self._waiting[call_id] - 1)
        if not self._waiting[call_id]:
            self.draw_call(call_id)

    def _show_tail(self, call_id: str, text: str) -> None:
        self._tails[call_id] = text[-TAIL:]
        if not self._waiting[call_id]:
            self._calls[call_id][0].draw_soon(lambda: self._call_card(call_id))

    @property
    def _last_call(self) -> str:
        return next(reversed(self._calls))

    def _between_steps(self, event: BaseEvent) -> None:
        match event:
            case CheckpointEvent(kind="step"):
                self._checkpoints[event.checkpoint_id] = len(self._checkpoints) + 1
            case PruneEvent():
                self._expect(pruned=event.calls)
            case DMailEvent():
                step = self._checkpoints.get(event.checkpoint_id, 0)
                self._expect(dmail=RecordedDMail(step=step, message=event.message))
            case LoopEvent(action="remind"):
                self._expect(reminder=" ".join(filter(None, [self._coming.reminder, event.message])))
            case LoopEvent(action="ask"):
                self._asked = True

    def _redraw_asked(self) -> None:
        """Draw the last call again in the place of the answered question about the turn."""
        if self._asked:
            self._asked = False
            display, call = self._calls[self._last_call]
            display.draw(self._settled_card(call), settled=True)

    def _expect(self, **fields: Any) -> None:
        self._coming = self._coming.model_copy(update=fields)

    def _draw_before(self, step: RecordedStep, *, settled: bool = False) -> None:
        """Draw the notes above the reply; `settled`: as in the record."""
        for output in self._before_cards(step):
            kind = output.metadata["kin"]["kind"]
            if kind not in self._before:
                self._before[kind] = self._progress.take()
            self._before[kind].draw(output, settled=settled)

    def _before_cards(self, step: RecordedStep) -> list[Output]:
        return render_step_notes(step, turn=self._turn, number=self._step)

    def _settle_call(self, call: RecordedCall) -> None:
        self._calls[call.id] = (self._calls[call.id][0], call)
        for known in (self._tails, self._inside, self._waiting):
            known.pop(call.id, None)
        self._calls[call.id][0].draw(self._settled_card(call), settled=True)

    def _reply_card(self, step: RecordedStep) -> Output:
        return render_reply(step, turn=self._turn, number=self._step)

    def _compaction_card(self, compaction: RecordedCompaction) -> Output:
        return render_compaction(compaction, turn=self._turn, step=self._next)

    def _call_card(self, call_id: str) -> Output:
        tail = self._tails.get(call_id, "")
        return render_call(self._calls[call_id][1], turn=self._turn, step=self._step, tail=tail)

    def _settled_card(self, call: RecordedCall) -> Output:
        """Return the final card of a call. A re-execution adds how the call compares."""
        return render_call(call, turn=self._turn, step=self._step)

    def _ending(self, record: TurnRecord) -> list[Output]:
        return [render_summary_line(record)]
