from __future__ import annotations

from kin_nb.core.modes import Policy
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class AskOutsideWorkspace:
    """Paths are compared after resolving every symlink: a link that leads out of the workspace is outside."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return None
        for path in (*call.write_paths, *call.read_paths):
            if not context.workspace.contains(path):
                return Decision.ask(f"{path} is outside the workspace")
        return None
