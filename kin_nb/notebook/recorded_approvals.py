"""`kin-nb replay --live --approve recorded`: calls that a recording allowed run again, with the same arguments only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.safety.secrets import WORKSPACE


def through_recorded(ask: Ask) -> Ask:
    """`ask`, after the recording that the runner of this kernel named, if it did and allows that."""
    environ = os.environ
    if environ.get("KIN_REPLAY") != "live" or environ.get("KIN_REPLAY_APPROVE") != "recorded":
        return ask
    allowed = list(_allowed(Path(environ["KIN_RECORDING"]), environ["KIN_REPLAY_WORKSPACE"]))

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        if any(name == request.tool_name and _same(arguments, request) for name, arguments in allowed):
            return ApprovalDecision(True, None, by="recorded")
        return await ask(request)

    return answer


def _allowed(path: Path, workspace: str) -> Iterator[tuple[str, str]]:
    """(tool, arguments as JSON, with this run's folder in them) of each call that ran."""
    from kin_nb.replay.format.in_notebook import read_recording  # noqa: PLC0415  (--live only)
    from kin_nb.replay.format.loading import load_notebook  # noqa: PLC0415

    here = json.dumps(workspace)[1:-1]
    for turn in read_recording(load_notebook(path)).turns:
        for call in turn.calls:
            if call.decision is not None and call.decision.verdict == "allow":
                ran = call.arguments if call.edited_arguments is None else call.edited_arguments
                yield call.name, ran.replace(WORKSPACE, here)


def _same(arguments: str, request: ApprovalRequest) -> bool:
    try:
        return type(request.args).model_validate_json(arguments) == request.args
    except ValidationError:
        return False
