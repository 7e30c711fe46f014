from __future__ import annotations

from kin_nb.core.modes import Policy
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, Risk, ToolRequest
from kin_nb.core.safety.risk import is_command, risk_of


class AllowByRisk:
    """What the policy in force lets through (seed 004); everything else goes on to be asked.

    strict: reads that are no commands. on-request: also commands that are proven to only read. auto-edit: also edits of
    existing files of the workspace; a new file asks. yolo: everything. Where the workspace is the home folder or above
    it, no policy but yolo lets a call touch files unasked.
    """

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return Decision.allow("auto-approve: everything runs unasked")
        if context.workspace.too_wide and (call.read_paths or call.write_paths):
            return None
        risk = risk_of(call, context.workspace)
        if risk is Risk.LOW and not is_command(call):
            return Decision.allow("only reads inside the workspace")
        if risk is Risk.LOW and context.policy is not Policy.STRICT:
            return Decision.allow("a command that is proven to only read")
        if risk is Risk.MEDIUM and context.policy is Policy.AUTO_EDIT and _edits_only(call):
            return Decision.allow("accept-edits: edits of existing files run unasked")
        return None


def _edits_only(call: ToolRequest) -> bool:
    return all(path.is_file() for path in call.write_paths)
