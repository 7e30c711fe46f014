"""Rerun: a recorded turn with its model from the recording and its tools for real, and how each call compares; and undos."""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.context.compaction import CompactionResult
from kin_nb.core.context.compaction import Summarize as AskModel
from kin_nb.core.llm.response_builder import is_portable
from kin_nb.core.messages import LLMMessage
from kin_nb.core.middleware import ConversationContext, MiddlewareAction, MiddlewareResult, ResetReason
from kin_nb.core.questions import AskQuestion, Question
from kin_nb.core.records import (
    BEFORE_PROMPT,
    CompactRecord,
    RecordedCall,
    RecordedCompaction,
    RecordedDecision,
    Ref,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.core.redaction import WORKSPACE
from kin_nb.core.safety.approvals import Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.task import Task
from kin_nb.core.undo import UndoError
from kin_nb.replay.rerun.drift import AFTER_DRIFT, MATCHING, Drift, compare_call, files_effect
from kin_nb.replay.rerun.rules import Rule
from kin_nb.replay.rerun.stubs import (
    NO_SUCH_TOOL,
    ReplayBackend,
    StubTool,
    apply_changes,
    covers_request,
    expand_arguments,
    register_stubs,
)

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

DMAIL = "send_dmail"
INTERRUPTED = "not run: it was interrupted when it was recorded"


@dataclass
class RunState:
    """The progress of a rerun. `ids`: this run's call ids, by the recorded ones.

    `turns`: the id of this run's own turn, by that of the recorded one; of a compaction, the turn before it. `head`: where the
    conversation is now, as recorded.
    `drifted`: a call or an undo has come out otherwise than recorded.
    """

    turns: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    drifted: bool = False
    compactions: dict[str, RecordedCompaction] = field(default_factory=dict)
    head: Ref | None = None

    def includes(self, ref: Ref | None) -> bool:
        """Whether that place of the recording has been run."""
        return ref is None or ref.id in self.turns

    def is_at(self, ref: Ref | None) -> bool:
        return self.head == ref

    def record_turn(self, turn: TurnRecord, own: TurnRecord) -> None:
        """Note that the recorded `turn` was run here, as `own`."""
        self.turns[turn.id] = own.id
        self.head = turn.head

    def record_move(self, record: SessionRecord) -> None:
        """Note that the move `record` between turns was made."""
        if isinstance(record, CompactRecord) and record.parent is not None and record.parent.id in self.turns:
            self.turns[record.id] = self.turns[record.parent.id]
            self.compactions[record.id] = record.compaction
        self.head = record.head

    def mark(self, drift: Drift) -> Drift:
        """Return a `drift` that counts, marked when it is not the first of the run."""
        marked = replace(drift, detail=f"{AFTER_DRIFT}{drift.detail}") if self.drifted else drift
        self.drifted = True
        return marked

    def place_in_run(self, turn_id: str, step: int) -> Ref | None:
        """Return the corresponding place in this run; None if its turn was not run."""
        own = self.turns.get(turn_id)
        return None if own is None else Ref(id=own, step=step)


class RecordedMiddleware:
    """Middleware of a rerun (core.middleware): compacts and stops where the recording did, whatever is configured here.

    It is the rerun's Compaction too, and says what to prune.
    """

    def __init__(self, backend: ReplayBackend) -> None:
        self._backend = backend

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        record = self._backend.record
        if self._backend.compaction_due is not None:
            return MiddlewareResult(MiddlewareAction.COMPACT)
        if self._backend.is_over and record.outcome == "stopped":
            return MiddlewareResult(MiddlewareAction.STOP, reason=record.message, stop_reason=record.stop_reason)
        return MiddlewareResult()

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return MiddlewareResult()

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        """Do nothing: there is no state."""

    async def compact(self, messages: list[LLMMessage], *, ask: AskModel, window: int) -> CompactionResult:  # noqa: ARG002
        """Return the recorded result of the compaction."""
        return self._backend.compacted()

    def prune_selector(self, context: ConversationContext) -> tuple[str, ...]:  # noqa: ARG002
        return self._backend.pruning_due


class TurnReplayer:
    """Runs one recorded turn again: `backend` replies for the model, and `compare` compares each call.

    A recorded refusal is repeated: refusing is safe. A recorded approval is history, not permission: only
    `approve_recorded` makes it one, and only for a call with the recorded arguments; for one that writes a file outside of
    the workspace only if that place was asked about. `known_ids`: tool-call ids of the turns before. `run_state` is the run's,
    and is kept up to date. `rules`: as of `compare_call`.
    """

    def __init__(
        self,
        turn: TurnRecord,
        workspace: Path,
        *,
        approve_recorded: bool,
        known_ids: Container[str] = frozenset(),
        run_state: RunState | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> None:
        self.turn = turn
        self.prompt = expand_workspace(turn.sent or turn.prompt, workspace)
        self._state = run_state or RunState()
        self._rules = rules
        self._recorded: dict[str, RecordedCall] = {}
        """By the id that the call has in this run."""
        self.backend = ReplayBackend(self._as_played(turn, workspace, known_ids))
        self._workspace = workspace
        self._approve = approve_recorded
        self._drifted: dict[str, str] = {}
        self._missing: dict[str, dict[str, str]] = {}
        """Of tasks, by the call's id: files that could not be written again, and why."""
        self._not_here: frozenset[str] = frozenset()
        """Tools that this run has not."""

    @property
    def drifts(self) -> list[str]:
        """Return a line for each call that drifted, in call order; calls that the recording lacks come last."""
        known = [self._drifted[call_id] for call_id in self._recorded if call_id in self._drifted]
        return known + [line for call_id, line in self._drifted.items() if call_id not in self._recorded]

    def prepare(self, agent: Agent) -> None:
        """Connect the agent to the recording, and restore the conversation to the start of the turn."""
        mails = sum(call.name == DMAIL and call.status == "ok" for call in self.turn.calls)
        steps = len(self.turn.steps) if self.turn.stop_reason == "max_steps" else sys.maxsize
        agent.override(max_dmails_per_turn=mails, max_steps_per_turn=steps)
        agent.backend = self.backend
        follow = RecordedMiddleware(self.backend)
        agent.use(middleware=[follow], compaction=follow, prune_selector=follow.prune_selector)
        self._play_tasks(agent)
        if self.turn.parent is None:
            agent.conversation.start_over()
        elif self._state.is_at(self.turn.parent):
            self._compact(agent, self.turn.parent)
        else:
            self._go_back(agent, self.turn.parent)

    def answer_approvals(self, ask: Ask) -> Ask:
        """Return an approver that answers from the recording, or else calls `ask`."""

        async def answer(request: ApprovalRequest) -> ApprovalDecision:
            return self._recorded_answer(request) or await ask(request)

        return answer

    def answer_questions(self, ask: AskQuestion) -> AskQuestion:
        """Return a function that answers questions from the recording, or else calls `ask`."""

        async def answer(question: Question) -> str:
            recorded = self._recorded.get(question.call_id)
            if recorded is not None and recorded.status == "ok":
                return expand_workspace(_given(recorded), self._workspace)
            return await ask(question)

        return answer

    def compare(self, actual: RecordedCall) -> tuple[RecordedCall, Drift]:
        """Return (the call to show, its drift). An equal call is shown exactly as recorded."""
        call_id = actual.id
        recorded = self._recorded.get(call_id)
        if recorded is None:
            drift = Drift("effect", detail="this call is not in the recording")
        else:
            drift = self._without_subagent(recorded, actual, _compare(recorded, actual, self._rules))
            if drift.kind in MATCHING and recorded.name in self._not_here and recorded.status in ("ok", "error"):
                drift = Drift("played", detail=NO_SUCH_TOOL)
            if drift.kind in MATCHING:
                return recorded, drift
            actual = actual.model_copy(update={"id": recorded.id})
        drift = self._state.mark(drift)
        self._drifted[call_id] = f"{actual.name}: {drift.kind} drift: {drift.detail}"
        return actual, drift

    def _play_tasks(self, agent: Agent) -> None:
        """Answer subagent tasks and calls of missing tools from the recording."""
        self._not_here = register_stubs(agent, self._recorded.values())
        for name in (Task.get_name(), *self._not_here):
            with suppress(ToolError):  # no such tool here: then none runs either
                tool = agent.tool_manager.get(name)
                if isinstance(tool, Task | StubTool):
                    played = [call_id for call_id, call in self._recorded.items() if call.name == name]
                    tool.state.played = {call_id: partial(self._played_task, call_id) for call_id in played}

    def _played_task(self, call_id: str) -> RecordedCall:
        """Return a task's recorded result, with this run's folder, after applying its file changes if that is allowed."""
        call = self._recorded[call_id]
        if call.files and self._approve:
            self._missing[call_id] = apply_changes(self._workspace, call.files)
        return call.model_copy(
            update={"output": expand_workspace(_given(call), self._workspace), "hint": "", "no_undo": ""}
        )

    def _without_subagent(self, recorded: RecordedCall, actual: RecordedCall, drift: Drift) -> Drift:
        """Return `drift`; for a task, explain file differences that come from not running its subagent."""
        if recorded.name != Task.get_name() or drift.kind != "effect" or recorded.status != actual.status:
            return drift
        if not self._approve:
            return Drift("refused", detail="file changes of its subagent were approved when recorded, but not here")
        missing = self._missing.get(actual.id, {})
        if not missing or files_effect((c for c in recorded.files if c.path not in missing), actual.files):
            return drift
        path, why = next(iter(missing.items()))
        more = f", and {len(missing) - 1} more files" if len(missing) > 1 else ""
        return Drift("not re-run", detail=f"its subagent changed {path}: {why}{more}")

    def _go_back(self, agent: Agent, ref: Ref) -> None:
        """Restore the conversation to a recorded place. Files stay as they are: only undos that run again restore files."""
        place = self._state.place_in_run(ref.id, ref.step)
        if place is not None:
            with suppress(UndoError):
                agent.undos.go_back(place)
        self._compact(agent, ref)

    def _compact(self, agent: Agent, ref: Ref) -> None:
        """Compact the conversation as recorded, where `ref` is a compaction."""
        compaction = self._state.compactions.get(ref.id)
        if compaction is not None:
            agent.conversation.take_compaction(compaction, partial(expand_workspace, workspace=self._workspace))

    def _as_played(self, turn: TurnRecord, workspace: Path, known_ids: Container[str]) -> TurnRecord:
        """Return the turn with this run's folder, and with call ids that are portable and unique."""
        steps = []
        ids = self._state.ids
        for step in turn.steps:
            calls = []
            for call in step.calls:
                fits = is_portable(call.id) and call.id not in self._recorded and call.id not in known_ids
                identity = call.id if fits else f"r{turn.turn % 1000:03d}{len(self._recorded):05d}"
                self._recorded[identity], ids[call.id] = call, identity
                here_ = expand_arguments(call.arguments, workspace)
                calls.append(call.model_copy(update={"id": identity, "arguments": here_}))
            compaction = step.compaction and step.compaction.model_copy(
                update={"summary": expand_workspace(step.compaction.summary, workspace)}
            )
            texts = {"content": expand_workspace(step.content, workspace), "compaction": compaction}
            pruned = tuple(ids.get(call_id, call_id) for call_id in step.pruned)
            steps.append(step.model_copy(update={**texts, "calls": tuple(calls), "pruned": pruned}))
        return turn.model_copy(update={"steps": tuple(steps)})

    def _recorded_answer(self, request: ApprovalRequest) -> ApprovalDecision | None:
        recorded = self._recorded.get(request.tool_call_id)
        if recorded is None or recorded.name != request.tool_name:
            return None
        if recorded.status == "interrupted":
            return ApprovalDecision(False, INTERRUPTED, by="headless")
        decision = recorded.decision
        if decision is None:
            return None
        if decision.verdict == "deny":
            return self._recorded_refusal(recorded, decision)
        if not self._approve or not covers_request(decision, recorded.arguments, request, self._workspace):
            return None
        edited = recorded.edited_arguments
        edited_args = json.loads(expand_arguments(edited, self._workspace)) if edited is not None else None
        return ApprovalDecision(True, decision.note, edited_args=edited_args, by="recorded")

    def _recorded_refusal(self, recorded: RecordedCall, decision: RecordedDecision) -> ApprovalDecision:
        if decision.by == "person":
            return ApprovalDecision(False, decision.note, by="person")
        # Here another policy may be in force, so the words that the model got come from the recording.
        return ApprovalDecision(False, expand_workspace(recorded.result, self._workspace), by="headless")


def _compare(recorded: RecordedCall, actual: RecordedCall, rules: Sequence[Rule] | None) -> Drift:
    """Compare a call. An interrupted one has no result: only its file changes count."""
    if recorded.status == "interrupted" and recorded.files == actual.files:
        return Drift("same", detail=INTERRUPTED)
    return compare_call(recorded, actual, rules)


def _given(call: RecordedCall) -> str:
    """Return the recorded result without its advice, which belongs to the recorded session."""
    return call.shown_to_model if call.withheld else call.result


def expand_workspace(text: str, workspace: Path) -> str:
    """Replace the workspace placeholder in `text` by this run's folder."""
    return text.replace(WORKSPACE, str(workspace))


async def replay_undo(agent: Agent, recorded: UndoRecord, run_state: RunState) -> tuple[UndoRecord, Drift]:
    """Run a recorded undo again. Return (the undo to show, its drift). An equal one is shown exactly as recorded."""
    try:
        actual = await _undone(agent, recorded, run_state)
    except (UndoError, NoSuchCheckpointError) as error:
        return recorded, run_state.mark(Drift("effect", detail=f"it cannot be done: {error}"))
    drift = compare_undo(recorded, actual)
    return (recorded, drift) if drift.kind == "same" else (actual, run_state.mark(drift))


def compare_undo(recorded: UndoRecord, actual: UndoRecord) -> Drift:
    """Compare an undo: `effect` if a file differs, or was kept and was not in the recording; otherwise `same`."""
    before, after = ({kept.path for kept in undo.kept} for undo in (recorded, actual))
    for path in sorted(before ^ after):
        return Drift(
            "effect", detail=f"{path}: {'left alone when recorded, not' if path in before else 'left alone'} now"
        )
    effect = files_effect(recorded.files, actual.files)
    return Drift("effect", detail=effect) if effect else Drift("same")


async def _undone(agent: Agent, recorded: UndoRecord, run_state: RunState) -> UndoRecord:
    if recorded.type == "redo":
        return await agent.redo()
    first, head = recorded.turn_ids[0], recorded.head
    step = head.step if head is not None and head.id == first else BEFORE_PROMPT
    place = run_state.place_in_run(first, step)
    if place is None:
        raise UndoError(f"turn {recorded.turns[0]} did not run in this replay")
    return await agent.revert_to(agent.conversation.checkpoints.at(place).id)
