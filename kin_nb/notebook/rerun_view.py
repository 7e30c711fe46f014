"""RerunView: a re-executed turn. Calls that came out as recorded look as recorded; the others say how they differ."""

from __future__ import annotations

from kin_nb.core.events import BaseEvent
from kin_nb.core.session.records import RecordedCall, RecordedCompaction, RecordedStep, TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.cell_view import CellView
from kin_nb.render import Output, render_call, render_notice, render_receipt
from kin_nb.replay.rerun.turns import Rerun


class RerunView(CellView):
    """`kin-nb replay --tools` reads each call's `drift` from its output's metadata."""

    def __init__(self, io: CellOutput, rerun: Rerun) -> None:
        super().__init__(io)
        self._rerun = rerun
        self._shown: dict[str, RecordedCall] = {}

    def begin(self, record: TurnRecord) -> None:  # noqa: ARG002
        """As recorded: here the model gets nothing."""
        super().begin(self._rerun.turn)

    def handle(self, event: BaseEvent) -> None:
        super().handle(event)
        self._turn = self._rerun.turn.turn  # the agent counts, and cells may have been deleted

    def _settled_card(self, call: RecordedCall) -> Output:
        shown, drift = self._rerun.compare(call)
        self._shown[call.id] = shown
        output = render_call(shown, turn=self._turn, step=self._step)
        output.metadata["kin"]["drift"] = drift.told
        return output

    def _pictures(self, call: RecordedCall) -> list[Output]:
        return super()._pictures(self._shown.get(call.id, call))

    def _compaction_card(self, compaction: RecordedCompaction) -> Output:
        """With the recorded sizes: nothing was counted here."""
        steps = self._rerun.turn.steps
        recorded = steps[self._next - 1].compaction if self._next <= len(steps) else None
        return super()._compaction_card(recorded or compaction)

    def _before_cards(self, step: RecordedStep) -> list[Output]:
        """As recorded: nothing here looks for loops, or runs out of room."""
        steps = self._rerun.turn.steps
        return super()._before_cards(steps[self._step - 1] if self._step <= len(steps) else step)

    def _ending(self, record: TurnRecord) -> list[Output]:
        """The recorded figures: what this run took says nothing about the session."""
        drifts = self._rerun.drifts
        receipt = render_receipt(self._rerun.turn)
        if not drifts:
            return [receipt]
        count = len(record.calls)
        return [receipt, render_notice(f"{len(drifts)} of {count} tool calls drifted", drifts, kind="error")]
