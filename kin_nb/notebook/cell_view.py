"""CellView: what a person sees of a turn while it runs. A consumer of events; every card is `kin_nb.render`'s.

One display per reply and per tool call, created in call order and updated in place, then the receipt: the same number
and order that playback and save produce, which is what nbval compares.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from kin_nb.core.events import (
    ApprovalDecisionEvent,
    AssistantEvent,
    BaseEvent,
    CheckpointEvent,
    CompactEndEvent,
    DMailEvent,
    LoopEvent,
    PruneEvent,
    ReasoningEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnStartEvent,
)
from kin_nb.core.session.records import RecordedCall, RecordedCompaction, RecordedDMail, RecordedStep, TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.render import Output, render_before_reply, render_call, render_compaction, render_receipt, render_reply
from kin_nb.render.subagent import subagent_line

INTERVAL = 0.1
"""Seconds between two updates of one display, at the least; longer texts wait longer, so the wire stays linear."""
BYTES_PER_SECOND = 100_000
TAIL = 2_000


class Display:
    """One output of the cell, drawn at most every INTERVAL and always in its last state."""

    def __init__(self, io: CellOutput) -> None:
        self.display_id = f"kin-{uuid4().hex}"
        self._io = io
        self._shown = False
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def draw(self, output: Output, *, settled: bool = False) -> None:
        """Now. Where nothing can be redrawn (a terminal), only the settled state is shown."""
        self.cancel()
        if settled or self._io.updates_in_place:
            self._size = sum(map(len, output.data.values()))
            self._io.display(output.data, output.metadata, display_id=self.display_id, update=self._shown)
            self._shown = True

    def draw_soon(self, render: Callable[[], Output]) -> None:
        """Unless a drawing is due already: it renders when its time comes, so it shows the newest state."""
        if not self._io.updates_in_place:
            return
        if not self._shown:
            self.draw(render())
        elif self._timer is None:
            wait = max(INTERVAL, self._size / BYTES_PER_SECOND)
            self._timer = asyncio.get_running_loop().call_later(wait, lambda: self.draw(render()))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class CellView:
    """Feed it every event of one turn with `handle`, then `finish` with the turn's record."""

    def __init__(self, io: CellOutput) -> None:
        self._io = io
        self._turn = self._step = 0
        self._next = 1
        """The step that a compaction now would stand before, in the record and here."""
        self._text = self._coming = RecordedStep()
        """The step as far as it is known, and what is known of the one after it."""
        self._before: dict[str, Display] = {}
        """What stands before the reply, by kind."""
        self._checkpoints: dict[int, int] = {}
        """The step that each checkpoint of this turn stands before."""
        self._reply: Display | None = None
        self._calls: dict[str, tuple[Display, RecordedCall]] = {}
        self._tails: dict[str, str] = {}
        self._inside: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """For each call that runs a subagent: the subagent's calls by id, a line each."""
        self._waiting: Counter[str] = Counter()
        """Questions that stand in a call's place, by call: nothing is drawn over their buttons."""
        self._asked = False
        """The person is asked whether the turn should go on."""

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
                Display(self._io).draw(self._compaction_card(compaction), settled=True)
            case ApprovalDecisionEvent() | ToolOutputEvent() | SubagentEvent():
                self._within_call(event.tool_call_id, event)
            case ToolResultEvent(call=RecordedCall() as call):
                self._settle_call(call)
            case _:
                self._between_steps(event)

    def display_of(self, call_id: str) -> str:
        """The display id of a call's card: the approval card takes its place while it waits.

        "" is a question about the turn: it takes the place of the last call.
        """
        return self._calls[call_id or self._last_call][0].display_id

    def waiting_card(self, call_id: str) -> Output:
        """What a client without widgets shows, and what a file saved meanwhile holds. The place is the question's now."""
        call_id = call_id or self._last_call
        display, call = self._calls[call_id]
        display.cancel()
        self._waiting[call_id] += 1
        return render_call(call, turn=self._turn, step=self._step, waiting=True)

    def draw_call(self, call_id: str) -> None:
        self._calls[call_id][0].draw(self._call_card(call_id))

    def finish(self, record: TurnRecord) -> None:
        """Settle whatever an interrupt left open, then the receipt."""
        self._redraw_asked()
        if self._reply is not None and record.steps:
            self._settle_reply(record.steps[-1])
        for call in record.steps[-1].calls if record.steps else ():
            if call.id in self._calls and self._calls[call.id][1].status == "pending":
                self._settle_call(call)
        for output in self._ending(record):
            Display(self._io).draw(output, settled=True)

    def _stream(self, **text: str) -> None:
        self._text = self._text.model_copy(update=text)
        if not (self._text.content.strip() or self._text.reasoning.strip()):
            return
        if self._reply is None:
            self._draw_before(self._text)
            self._reply = Display(self._io)
        self._reply.draw_soon(lambda: self._reply_card(self._text))

    def _settle_reply(self, step: RecordedStep) -> None:
        self._next = self._step + 1
        self._draw_before(step, settled=True)
        if step.content.strip() or step.reasoning.strip():
            (self._reply or Display(self._io)).draw(self._reply_card(step), settled=True)
        self._reply = None
        for call in step.calls:
            self._calls[call.id] = (Display(self._io), call)
            self.draw_call(call.id)

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
        """What a subagent does, as what its call prints."""
        lines = self._inside[call_id]
        lines.update({call.id: subagent_line(call) for call in calls})
        self._show_tail(call_id, "\n".join(lines.values()))

    def _answered(self, call_id: str) -> None:
        """Its place is the call's again, unless its subagent has asked the next question by now."""
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
                self._expect(injected="\n\n".join(filter(None, [self._coming.injected, event.message])))
            case LoopEvent(action="ask"):
                self._asked = True

    def _redraw_asked(self) -> None:
        """The question about the turn is answered: its place is the last call's again."""
        if self._asked:
            self._asked = False
            display, call = self._calls[self._last_call]
            display.draw(self._settled_card(call), settled=True)

    def _expect(self, **fields: Any) -> None:
        self._coming = self._coming.model_copy(update=fields)

    def _draw_before(self, step: RecordedStep, *, settled: bool = False) -> None:
        """Above the reply, and as the record has it once that is complete."""
        for output in self._before_cards(step):
            kind = output.metadata["kin"]["kind"]
            self._before.setdefault(kind, Display(self._io)).draw(output, settled=settled)

    def _before_cards(self, step: RecordedStep) -> list[Output]:
        return render_before_reply(step, turn=self._turn, number=self._step)

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
        """The card that stays. A re-execution says here how the call compares."""
        return render_call(call, turn=self._turn, step=self._step)

    def _ending(self, record: TurnRecord) -> list[Output]:
        return [render_receipt(record)]
