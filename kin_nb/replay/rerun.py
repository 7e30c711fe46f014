"""Rerun: a recorded turn with its model from the recording and its tools for real, and how each call compares."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kin_nb.core.llm.merge import is_portable
from kin_nb.core.middleware import ConversationContext, MiddlewareAction, MiddlewareResult, ResetReason
from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.safety.secrets import WORKSPACE
from kin_nb.core.session.records import RecordedCall, RecordedDecision, TurnRecord
from kin_nb.replay.backend import ReplayBackend
from kin_nb.replay.drift import HARMLESS, Drift, compare_call

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

INTERRUPTED = "not run: it was interrupted when it was recorded"


class FollowRecording:
    """Middleware of a rerun (core.middleware): compacts and stops where the recording did, whatever is configured here."""

    def __init__(self, backend: ReplayBackend) -> None:
        self._backend = backend

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        record = self._backend.record
        if self._backend.compaction_due is not None:
            return MiddlewareResult(MiddlewareAction.COMPACT)
        if self._backend.is_over and record.outcome == "stopped":
            return MiddlewareResult(MiddlewareAction.STOP, reason=record.message)
        return MiddlewareResult()

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return MiddlewareResult()

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        """Nothing to forget."""


class Rerun:
    """One turn. `backend` answers for the model, `asking` what a recording may answer; `compare` judges each call.

    A recorded refusal is repeated: refusing is safe. A recorded approval is history, not permission: only
    `approve_recorded` makes it one, and only for a call with the recorded arguments. `known_ids`: tool-call ids of
    the turns before.
    """

    def __init__(
        self,
        turn: TurnRecord,
        workspace: Path,
        *,
        approve_recorded: bool,
        known_ids: Container[str] = frozenset(),
    ) -> None:
        self.turn = turn
        self.prompt = here(turn.sent or turn.prompt, workspace)
        self._recorded: dict[str, RecordedCall] = {}
        """By the id that the call has in this run."""
        self.backend = ReplayBackend(self._as_played(turn, workspace, known_ids))
        self._workspace = workspace
        self._approve = approve_recorded
        self.drifts: list[str] = []
        """A line for each call that drifted, in order."""

    def prepare(self, agent: Agent) -> None:
        """The agent answers from the recording, and begins the turn where it began: cleared, or compacted."""
        agent.backend = self.backend
        agent.middleware_pipeline.clear()
        agent.middleware_pipeline.add(FollowRecording(self.backend))
        if self.turn.fresh:
            agent.history.restart()
        if self.turn.compaction is not None:
            agent.history.compact(here(self.turn.compaction.summary, self._workspace))

    def asking(self, ask: Ask) -> Ask:
        """What the recording answers, else `ask`."""

        async def answer(request: ApprovalRequest) -> ApprovalDecision:
            return self._recorded_answer(request) or await ask(request)

        return answer

    def compare(self, actual: RecordedCall) -> tuple[RecordedCall, Drift]:
        """(the call to show, how `actual` compares). What is as recorded is shown as recorded, to the byte."""
        recorded = self._recorded.get(actual.id)
        if recorded is None:
            drift = Drift("effect", detail="a call that the recording has not")
        else:
            drift = _compare(recorded, actual)
            if drift.kind in HARMLESS:
                return recorded, drift
            actual = actual.model_copy(update={"id": recorded.id})
        if self.drifts:
            drift = replace(drift, detail=f"after drift: {drift.detail}")
        self.drifts.append(f"{actual.name}: {drift.kind} drift: {drift.detail}")
        return actual, drift

    def _as_played(self, turn: TurnRecord, workspace: Path, known_ids: Container[str]) -> TurnRecord:
        """The turn with this run's folder in it, and ids that the agent takes as they are: portable, each once."""
        steps = []
        for step in turn.steps:
            calls = []
            for call in step.calls:
                fits = is_portable(call.id) and call.id not in self._recorded and call.id not in known_ids
                identity = call.id if fits else f"r{turn.turn % 1000:03d}{len(self._recorded):05d}"
                self._recorded[identity] = call
                here_ = _arguments_here(call.arguments, workspace)
                calls.append(call.model_copy(update={"id": identity, "arguments": here_}))
            compaction = step.compaction and step.compaction.model_copy(
                update={"summary": here(step.compaction.summary, workspace)}
            )
            texts = {"content": here(step.content, workspace), "compaction": compaction}
            steps.append(step.model_copy(update={**texts, "calls": tuple(calls)}))
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
        if not self._approve or not self._same_arguments(recorded, request):
            return None
        edited = recorded.edited_arguments
        edited_args = json.loads(_arguments_here(edited, self._workspace)) if edited is not None else None
        return ApprovalDecision(True, decision.note, edited_args=edited_args, by="recorded")

    def _recorded_refusal(self, recorded: RecordedCall, decision: RecordedDecision) -> ApprovalDecision:
        if decision.by == "person":
            return ApprovalDecision(False, decision.note, by="person")
        # Here another policy may be in force, so the words that the model got come from the recording.
        return ApprovalDecision(False, here(recorded.output, self._workspace), by="headless")

    def _same_arguments(self, recorded: RecordedCall, request: ApprovalRequest) -> bool:
        try:
            arguments = _arguments_here(recorded.arguments, self._workspace)
            return type(request.args).model_validate_json(arguments) == request.args
        except ValidationError:
            return False


def _compare(recorded: RecordedCall, actual: RecordedCall) -> Drift:
    """A call that was interrupted has no result to compare: what it left in files is all that counts."""
    if recorded.status == "interrupted" and recorded.files == actual.files:
        return Drift("same", detail=INTERRUPTED)
    return compare_call(recorded, actual)


def here(text: str, workspace: Path) -> str:
    """`text` with the recorded placeholder replaced by this run's folder."""
    return text.replace(WORKSPACE, str(workspace))


def _arguments_here(arguments: str, workspace: Path) -> str:
    return arguments.replace(WORKSPACE, json.dumps(str(workspace))[1:-1])
