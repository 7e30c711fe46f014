"""CellView: what a person sees of a turn while it runs. A consumer of events; every card is `kin_nb.render`'s.

One display per reply and per tool call, created in call order and updated in place, then the receipt: the same number
and order that playback and save produce, which is what nbval compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

from kin_nb.core.events import (
    ApprovalDecisionEvent,
    AssistantEvent,
    BaseEvent,
    CompactEndEvent,
    ReasoningEvent,
    StepReplyEvent,
    StepStartEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnStartEvent,
)
from kin_nb.core.session.records import RecordedCall, RecordedCompaction, RecordedStep, TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.render import Output, render_call, render_compaction, render_receipt, render_reply

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
        self._text = RecordedStep()
        self._reply: Display | None = None
        self._calls: dict[str, tuple[Display, RecordedCall]] = {}
        self._tails: dict[str, str] = {}

    def handle(self, event: BaseEvent) -> None:
        match event:
            case TurnStartEvent():
                self._turn = event.turn
            case StepStartEvent():
                self._step = self._next = event.step
                self._reply = None
                self._text = RecordedStep()
            case AssistantEvent(stopped_by_middleware=False):
                self._stream(content=self._text.content + event.content)
            case ReasoningEvent():
                self._stream(reasoning=self._text.reasoning + event.content)
            case StepReplyEvent():
                self._settle_reply(event.step)
            case CompactEndEvent(compaction=RecordedCompaction() as compaction):
                Display(self._io).draw(self._compaction_card(compaction), settled=True)
            case ApprovalDecisionEvent():
                self.draw_call(event.tool_call_id)
            case ToolOutputEvent():
                self._tails[event.tool_call_id] = (self._tails.get(event.tool_call_id, "") + event.text)[-TAIL:]
                display, _ = self._calls[event.tool_call_id]
                display.draw_soon(lambda: self._call_card(event.tool_call_id))
            case ToolResultEvent(call=RecordedCall() as call):
                self._settle_call(call)

    def display_of(self, call_id: str) -> str:
        """The display id of a call's card: the approval card takes its place while it waits."""
        return self._calls[call_id][0].display_id

    def waiting_card(self, call_id: str) -> Output:
        """What a client without widgets shows, and what a file saved meanwhile holds."""
        return render_call(self._calls[call_id][1], turn=self._turn, step=self._step, waiting=True)

    def draw_call(self, call_id: str) -> None:
        self._calls[call_id][0].draw(self._call_card(call_id))

    def finish(self, record: TurnRecord) -> None:
        """Settle whatever an interrupt left open, then the receipt."""
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
            self._reply = Display(self._io)
        self._reply.draw_soon(lambda: self._reply_card(self._text))

    def _settle_reply(self, step: RecordedStep) -> None:
        self._next = self._step + 1
        if step.content.strip() or step.reasoning.strip():
            (self._reply or Display(self._io)).draw(self._reply_card(step), settled=True)
        self._reply = None
        for call in step.calls:
            self._calls[call.id] = (Display(self._io), call)
            self.draw_call(call.id)

    def _settle_call(self, call: RecordedCall) -> None:
        self._calls[call.id] = (self._calls[call.id][0], call)
        self._tails.pop(call.id, None)
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
