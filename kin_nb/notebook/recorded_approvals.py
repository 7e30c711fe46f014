"""`kin-nb replay --live --approve recorded`: calls that a recording allowed run again, with the same arguments only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.records import RecordedDecision
from kin_nb.replay.environment import ReplayEnvironment


def through_recorded(ask: Ask) -> Ask:
    """`ask`, after the recording that the runner of this kernel named, if it did and allows that. Raises ReplayError."""
    environment = ReplayEnvironment.from_environ(os.environ)
    if environment is None or environment.mode != "live" or not environment.approve_recorded:
        return ask
    from kin_nb.replay.rerun.approvals import covers  # noqa: PLC0415  (--live only)

    allowed, workspace = list(_allowed(environment.notebook)), environment.workspace

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        for name, arguments, decision in allowed:
            if name == request.tool_name and covers(decision, arguments, request, workspace):
                return ApprovalDecision(True, None, by="recorded")
        return await ask(request)

    return answer


def _allowed(path: Path) -> Iterator[tuple[str, str, RecordedDecision]]:
    """(tool, arguments as JSON, decision) of each call that ran."""
    from kin_nb.replay.format.in_notebook import read_recording  # noqa: PLC0415  (--live only)
    from kin_nb.replay.format.loading import load_notebook  # noqa: PLC0415

    for turn in read_recording(load_notebook(path)).turns:
        for call in turn.calls:
            if call.decision is not None and call.decision.verdict == "allow":
                yield call.name, call.edited_arguments or call.arguments, call.decision
