from __future__ import annotations

from kin_nb.core.modes import Policy
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class AskForSensitivePaths:
    """Secrets, and files that execute later, ask every time: no grant and no rule covers them, only yolo."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return None
        for path in (*call.write_paths, *call.read_paths):
            why = context.workspace.is_sensitive(path)
            if why:
                return Decision.ask(f"{context.workspace.relative(path)}: {why}")
        return None
