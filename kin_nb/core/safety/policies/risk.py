from __future__ import annotations

from kin_nb.core.modes import Policy
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class AllowByRisk:
    """Reading is low risk, editing an existing file of the workspace is medium, all else is high (seed 004)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return Decision.allow("auto-approve: everything runs unasked")
        if call.accesses.only_reads:
            return Decision.allow("only reads inside the workspace")
        edits_only = not call.accesses.everything and all(path.is_file() for path in call.write_paths)
        if context.policy is Policy.AUTO_EDIT and edits_only:
            return Decision.allow("accept-edits: edits of existing files run unasked")
        return None
