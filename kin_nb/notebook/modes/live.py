"""LiveMode: the model is asked, unless the cell's answer is known already; and the recorded approvals of `--approve recorded`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.commands import CommandError, CommandResult, run_command, unescaped
from kin_nb.core.records import RecordedDecision, SessionRecord, TurnRecord
from kin_nb.core.safety.approvals import Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.undo import UndoError
from kin_nb.notebook.cell_io import CellOutput, has_reader
from kin_nb.notebook.modes.mode import GoLive, PromptCell
from kin_nb.notebook.modes.show_records import show_records
from kin_nb.notebook.namespace import collect_attachments
from kin_nb.notebook.notebook_file import record_metadata
from kin_nb.notebook.options import KinError
from kin_nb.notebook.recorded_answers import RecordedAnswers
from kin_nb.notebook.turn_runner import CellTurns, limits, run_flow, run_turn
from kin_nb.render import render_notice, render_undo
from kin_nb.replay.cell_keys import cell_runs, is_answer, last_run
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.playback.player import resume_from

if TYPE_CHECKING:
    from kin_nb.core.commands import CommandHost
    from kin_nb.notebook.live_agent import Budget, LiveAgent


def with_recorded_approvals(ask: Ask) -> Ask:
    """Let the recorded approvals answer before `ask`, if the runner of this kernel allows that. Raises ReplayError."""
    environment = ReplayEnvironment.from_environ(os.environ)
    if environment is None or environment.mode != "live" or not environment.approve_recorded:
        return ask
    from kin_nb.replay.rerun.stubs import covers_request  # noqa: PLC0415  (--live only)

    allowed, workspace = list(_allowed(environment.notebook)), environment.workspace

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        for name, arguments, decision in allowed:
            if name == request.tool_name and covers_request(decision, arguments, request, workspace):
                return ApprovalDecision(True, None, by="recorded")
        return await ask(request)

    return answer


def _allowed(path: Path) -> Iterator[tuple[str, str, RecordedDecision]]:
    """Yield (tool, arguments as JSON, decision) of each allowed call."""
    from kin_nb.replay.format.notebook_codec import read_recording  # noqa: PLC0415  (--live only)
    from kin_nb.replay.format.notebook_reader import load_notebook  # noqa: PLC0415

    for turn in read_recording(load_notebook(path)).turns:
        for call in turn.calls:
            if call.decision is not None and call.decision.verdict == "allow":
                yield call.name, call.edited_arguments or call.arguments, call.decision


class LiveMode:
    """Ask the model. `always`: also for cells with a saved answer. `new`: in a new conversation, not the recorded one."""

    is_live = True
    last = None

    def __init__(
        self,
        recorded: RecordedAnswers,
        live: LiveAgent,
        session: str,
        host: CommandHost,
        budget: Budget,
        *,
        always: bool = False,
        new: bool = False,
    ) -> None:
        self._recorded, self._live, self._session, self._host = recorded, live, session, host
        self._budget = budget
        self.always, self._new = always, new
        self._before = frozenset(recorded.book.records)
        """What was recorded when it began."""

    @property
    def name(self) -> str:
        return f"live, record mode {'all' if self.always else 'new'}"

    def run(self, cell: PromptCell) -> TurnRecord | GoLive:
        options = cell.options
        known = self._known(cell)
        turn = next((each for each in reversed(known) if isinstance(each, TurnRecord)), None)
        asked_again = self.always
        if (options.live or options.retry or options.new) and turn is not None and turn.id not in self._before:
            asked_again = True  # it was made here: the cell is run again to do so again
        if turn is not None and (options.cached or not asked_again):
            earlier = self._recorded.earlier(cell.io.cell_id, known)
            show_records(known, self._recorded.book, cell.io, self._session, earlier=earlier)
            self._recorded.shown_again(cell.io.cell_id)
            if has_reader(cell.io) and not options.cached:
                how = render_notice("The saved answer is shown", ["To ask the model again: `%%kin --retry`."])
                cell.io.display(how.data, how.metadata)
            return turn
        if options.cached:
            raise KinError("This cell has no saved answer in this session.\nRemove --cached to ask the model.")
        return self._ask(cell)

    def move(self, command: str, io: CellOutput) -> SessionRecord:
        """Not used: live, commands change the conversation themselves."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: the agent belongs to the session."""

    def agent(self) -> Agent:
        """Return the agent. A new one continues from the end of the recording. Raises KinError."""
        new = self._live.agent_or_none is None
        agent = self._live.get()
        book = self._recorded.book
        head = book.head(self._session) if new and not self._new else None
        if head is not None:
            try:
                found = resume_from(agent, book, head)
            except ReplayError as error:
                self._live.close()  # that agent is nowhere
                raise KinError(str(error)) from None
            self._recorded.tell_missing(found.missing_ids)
        elif new:
            agent.conversation.lineage.see(book.records.values())
        return agent

    def _known(self, cell: PromptCell) -> Sequence[SessionRecord]:
        """Return the records of this cell for its present text; none without a cell id: two cells may have the same text."""
        entry = self._recorded.book.cell(cell.io.cell_id)
        found = last_run(entry.records, cell.key) if entry is not None and entry.session == self._session else ()
        turns = [each for each in found if isinstance(each, TurnRecord)]
        return found if turns and is_answer(turns[-1]) else ()

    def _ask(self, cell: PromptCell) -> TurnRecord:
        options, io, shell = cell.options, cell.io, self._recorded.shell
        if options.model is not None:
            self._live.choose_model(options.model)  # from this cell on; the default may have no key
        agent = self.agent()
        if not self.always:
            self._recorded.tell_unknown_file(io)
        with self._live.in_mode(options.mode), self._knowing(agent):
            if options.retry:
                self._take_back(agent, cell)
            if options.new:
                self._live.on_thread(partial(agent.clear_history, key=cell.key, cell_id=io.cell_id))
            result = self._asked_for(cell)
            attached = collect_attachments(result.prompt or cell.prompt, shell, agent.workspace, agent)
            how: dict[str, Any] = {"tools": options.tools, "attached": attached}
            earlier = self._recorded.earlier(io.cell_id)

            def carry(turn: TurnRecord) -> dict[str, Any]:
                """The first turn of the cell carries what the cell made before."""
                found = {**record_metadata(shell, agent, turn), **earlier}
                earlier.clear()
                return found

            how |= {"through": with_recorded_approvals, "carry": carry}
            turns = CellTurns(agent, cell.key, io, **how)
            with limits(agent, options, self._budget.max_price, self._budget.spent_by_others(self._live)):
                if result.flow is not None:
                    run_flow(shell, self._live.thread, agent, turns, io, result.flow, result.prompt or "")
                else:
                    run_turn(shell, self._live.thread, agent, turns, io, result.prompt or cell.prompt)
        self._recorded.shown_again(io.cell_id)
        return agent.turns[-1]

    def _asked_for(self, cell: PromptCell) -> CommandResult:
        """Return the prompt to send, or the flow to run. Raises KinError."""
        if cell.typed is None:
            return CommandResult(prompt=unescaped(cell.prompt))
        try:
            return run_command(self._host, cell.typed)
        except CommandError as error:
            raise KinError(str(error)) from None

    @contextmanager
    def _knowing(self, agent: Agent) -> Iterator[None]:
        """Add the agent's records when the block ends, also after an error."""
        try:
            yield
        finally:
            self._recorded.know(agent, self._session)

    def _take_back(self, agent: Agent, cell: PromptCell) -> None:
        """Undo the cell's answer and everything after it, files too. Does nothing if it is already undone.

        Raises KinError.
        """
        entry = self._recorded.book.cell(cell.io.cell_id)
        answers = (
            [run for run in cell_runs(entry.records) if isinstance(run[-1], TurnRecord)] if entry is not None else []
        )
        active = agent.undos.active
        ids = {record.id for record in answers[-1]} if answers else set()
        first = next((n for n, turn in enumerate(active) if turn.id in ids), None)
        if first is None:
            return
        count = len(active) - first
        try:
            undone = self._live.on_thread(lambda: agent.undo(count, key=cell.key, cell_id=cell.io.cell_id))
        except UndoError as error:
            raise KinError(str(error)) from None
        card = render_undo(undone, self._session)
        card.metadata.update(record_metadata(self._recorded.shell, agent, undone))
        cell.io.display(card.data, card.metadata)
