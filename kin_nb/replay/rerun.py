"""Rerun: a recorded turn with its model from the recording and its tools for real, and how each call compares."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.safety.secrets import WORKSPACE
from kin_nb.core.session.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.replay.backend import ReplayBackend
from kin_nb.replay.drift import HARMLESS, Drift, compare_call


class Rerun:
    """One turn. `backend` answers for the model, `asking` what a recording may answer; `compare` judges each call.

    A recorded refusal is repeated: refusing is safe. A recorded approval is history, not permission: only
    `approve_recorded` makes it one, and only for a call with the recorded arguments.
    """

    def __init__(self, turn: TurnRecord, workspace: Path, *, approve_recorded: bool) -> None:
        self.turn = turn
        self.prompt = here(turn.prompt, workspace)
        self.backend = ReplayBackend(_in_workspace(turn, workspace))
        self._recorded = {call.id: call for call in turn.calls}
        self._workspace = workspace
        self._approve = approve_recorded
        self.drifts: list[str] = []
        """A line for each call that drifted, in order."""

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
            drift = compare_call(recorded, actual)
            if drift.kind in HARMLESS:
                return recorded, drift
        if self.drifts:
            drift = replace(drift, detail=f"after drift: {drift.detail}")
        self.drifts.append(f"{actual.name}: {drift.kind} drift: {drift.detail}")
        return actual, drift

    def _recorded_answer(self, request: ApprovalRequest) -> ApprovalDecision | None:
        recorded = self._recorded.get(request.tool_call_id)
        if recorded is None or recorded.name != request.tool_name:
            return None
        if recorded.status == "interrupted":
            return ApprovalDecision(False, "it was interrupted when it was recorded", by="recorded")
        decision = recorded.decision
        if decision is None:
            return None
        if decision.verdict == "deny":
            return ApprovalDecision(False, decision.note, by=decision.by if decision.by == "person" else "recorded")
        if not self._approve:
            return None
        edited = recorded.edited_arguments
        edited_args = json.loads(_arguments_here(edited, self._workspace)) if edited is not None else None
        return ApprovalDecision(True, decision.note, edited_args=edited_args, by="recorded")


def here(text: str, workspace: Path) -> str:
    """`text` with the recorded placeholder replaced by this run's folder."""
    return text.replace(WORKSPACE, str(workspace))


def _arguments_here(arguments: str, workspace: Path) -> str:
    return arguments.replace(WORKSPACE, json.dumps(str(workspace))[1:-1])


def _in_workspace(turn: TurnRecord, workspace: Path) -> TurnRecord:
    def step_here(step: RecordedStep) -> RecordedStep:
        calls = tuple(
            call.model_copy(update={"arguments": _arguments_here(call.arguments, workspace)}) for call in step.calls
        )
        return step.model_copy(update={"content": here(step.content, workspace), "calls": calls})

    return turn.model_copy(update={"steps": tuple(step_here(step) for step in turn.steps)})
