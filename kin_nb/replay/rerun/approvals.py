"""What a recorded approval allows in another run: that call, and of files outside of the workspace those that it was for."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.core.safety.secrets import WORKSPACE, Redactor
from kin_nb.core.session.records import RecordedDecision


def covers(decision: RecordedDecision, arguments: str, request: ApprovalRequest, workspace: Path) -> bool:
    """Whether `decision`, which allowed a call with `arguments` as they are recorded, answers `request` for that tool.

    What was approved for a place in the workspace is not for another one, where a name or a link leads out of it now.
    """
    if decision.verdict != "allow" or not _same(arguments_here(arguments, workspace), request):
        return False
    return not request.writes_outside or Redactor((), workspace).text(request.reason) == decision.reason


def arguments_here(arguments: str, workspace: Path) -> str:
    """JSON text with this run's folder in it."""
    return arguments.replace(WORKSPACE, json.dumps(str(workspace))[1:-1])


def _same(arguments: str, request: ApprovalRequest) -> bool:
    try:
        return type(request.args).model_validate_json(arguments) == request.args
    except ValidationError:
        return False
