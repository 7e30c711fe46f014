"""RerunMode: the recorded model with real tools (`kin-nb replay --tools`), in a copy of the workspace; and what its cells show."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.context.history import images_of
from kin_nb.core.events import BaseEvent
from kin_nb.core.records import RecordedCall, RecordedCompaction, RecordedStep, SessionRecord, TurnRecord, UndoRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.cell_view import CellView
from kin_nb.notebook.live_agent import kernel_facts
from kin_nb.notebook.modes.mode import GoLive, PromptCell
from kin_nb.notebook.modes.show_records import show_records
from kin_nb.notebook.namespace import Attachments, add_namespace_tools
from kin_nb.notebook.turn_runner import CellTurns, run_turn
from kin_nb.render import Output, render_call, render_notice, render_summary_line, render_undo
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import command_key
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import ReplayEndedError
from kin_nb.replay.playback.player import Playback
from kin_nb.replay.rerun.rules import load_rules
from kin_nb.replay.rerun.stubs import configured_servers
from kin_nb.replay.rerun.turn_replayer import DMAIL, RunState, TurnReplayer, replay_undo

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.live_agent import LiveAgent


class RerunView(CellView):
    """`kin-nb replay --tools` reads each call's `drift` from its output's metadata."""

    def __init__(self, io: CellOutput, rerun: TurnReplayer) -> None:
        super().__init__(io)
        self._rerun = rerun
        self._shown: dict[str, RecordedCall] = {}

    def begin(self, record: TurnRecord) -> None:  # noqa: ARG002
        """Show the attachments as recorded: nothing is sent to a model here."""
        super().begin(self._rerun.turn)

    def handle(self, event: BaseEvent) -> None:
        super().handle(event)
        self._turn = self._rerun.turn.turn  # the agent counts, and cells may have been deleted

    def _settled_card(self, call: RecordedCall) -> Output:
        shown, drift = self._rerun.compare(call)
        self._shown[call.id] = shown
        output = render_call(shown, turn=self._turn, step=self._step)
        output.metadata["kin"]["drift"] = drift.metadata
        return output

    def _pictures(self, call: RecordedCall) -> list[Output]:
        return super()._pictures(self._shown.get(call.id, call))

    def _compaction_card(self, compaction: RecordedCompaction) -> Output:
        """Show the recorded sizes: nothing was counted here."""
        turn = self._rerun.turn
        recorded = turn.steps[self._next - 1].compaction if self._next <= len(turn.steps) else turn.compaction
        return super()._compaction_card(recorded or compaction)

    def _before_cards(self, step: RecordedStep) -> list[Output]:
        """Show the recorded notes: a rerun detects no loops, and does not compact by itself."""
        steps = self._rerun.turn.steps
        return super()._before_cards(steps[self._step - 1] if self._step <= len(steps) else step)

    def _ending(self, record: TurnRecord) -> list[Output]:
        """Show the recorded usage: that of the rerun says nothing about the session."""
        drifts = self._rerun.drifts
        summary_line = render_summary_line(self._rerun.turn)
        if not drifts:
            return [summary_line]
        count = len(record.calls)
        return [
            summary_line,
            render_notice(f"{len(drifts)} of {count} tool calls differ from the recording", drifts, kind="error"),
        ]


class RerunMode:
    """Run a record again if it continues from what was run here; otherwise show it as recorded, with a notice."""

    is_live = False
    name = "re-execution of the recorded calls"

    def __init__(
        self, shell: InteractiveShell, live: LiveAgent, book: Book, environment: ReplayEnvironment, session: str
    ) -> None:
        self._shell, self._live, self._book, self._session = shell, live, book, session
        self._environment = environment
        self._playback = Playback(book, session)
        self._run_state = RunState()
        self._agent: Agent | None = None
        self.last: TurnRecord | None = None

    def run(self, cell: PromptCell) -> TurnRecord | GoLive:
        shown, _ = self._playback.play(cell.key, cell.io.cell_id)
        for record in shown:
            if isinstance(record, TurnRecord):
                self._run_again(record, cell.io)
            else:
                # an undo before a new answer: what it undid was not run
                show_records([record], self._book, cell.io, self._session)
        self.last = next(record for record in reversed(shown) if isinstance(record, TurnRecord))
        return self.last

    def move(self, command: str, io: CellOutput) -> SessionRecord:
        shown, _ = self._playback.play(command_key(command), io.cell_id)
        record = shown[-1]
        if isinstance(record, UndoRecord) and self._run_state.is_at(record.parent):
            agent, run_state = self._running(), self._run_state
            undone, drift = self._live.on_thread(lambda: replay_undo(agent, record, run_state))
            card = render_undo(undone, self._session)
            extra = {"undo": record.id, "drift": drift.metadata}
            io.display(card.data, {**card.metadata, "kin": {**card.metadata["kin"], **extra}})
        else:
            show_records(shown, self._book, io, self._session)
        self._run_state.record_move(record)
        return record

    def close(self) -> None:
        """Do nothing: the agent ends with the kernel."""

    def _run_again(self, turn: TurnRecord, io: CellOutput) -> None:
        """Run the turn again. Raises ReplayEndedError."""
        if not self._run_state.includes(turn.parent):
            notice = render_notice(
                f"Turn {turn.turn} is shown as recorded", ["It continues from a turn that was not run here."]
            )
            show_records([turn], self._book, io, self._session)
            io.display(notice.data, notice.metadata)
            return
        agent, environment = self._running(), self._environment
        rerun = TurnReplayer(
            turn,
            agent.workspace.root,
            approve_recorded=environment.approve_recorded,
            known_ids=agent.history.call_ids,
            run_state=self._run_state,
            rules=load_rules(environment.rules),
        )
        rerun.prepare(agent)
        how: dict[str, Any] = {
            "view": RerunView(io, rerun),
            "through": rerun.answer_approvals,
            "answering": rerun.answer_questions,
        }
        how["attached"] = Attachments(labels=turn.attached, images=tuple(images_of(turn.images)))
        try:
            turns = CellTurns(agent, turn.key, io, **how)
            run_turn(self._shell, self._live.thread, agent, turns, io, rerun.prompt)
        except ReplayEndedError:
            if turn.outcome == "done":
                raise
        finally:
            self._run_state.record_turn(turn, agent.turns[-1])

    def _running(self) -> Agent:
        """Return the agent. It has default settings, except for confinement, so that a notebook runs alike for every user."""
        if self._agent is not None:
            return self._agent
        # what a loop or a D-Mail led to is in the recording
        turns = [record for record in self._book.records.values() if isinstance(record, TurnRecord)]
        mails = any(call.name == DMAIL for turn in turns for call in turn.calls)
        sandbox = self._environment.sandbox
        tools: dict[str, Any] = {"bash": dict(sandbox)} if sandbox else {}
        where = self._environment.workspace
        agent = Agent(
            KinConfig(
                workdir=where,
                loop_detection=False,
                dmail=mails,
                mcp_servers=configured_servers(os.environ),
                tools=tools,
            ),
            host=kernel_facts(has_user=True),
        )
        atexit.register(lambda: self._live.on_thread(agent.aclose))  # its servers end too
        add_namespace_tools(agent, self._shell)
        self._agent = agent
        return agent
