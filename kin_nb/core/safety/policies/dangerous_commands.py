from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest
from kin_nb.core.safety.shell.dangerous import danger


class DenyDangerousCommands:
    """What nobody means never runs, not even where everything runs unasked: see shell/dangerous.py."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        command = getattr(call.args, "command", None)
        why = danger(command, context.workspace.root) if isinstance(command, str) else ""
        if not why:
            return None
        return Decision.deny(f"{why}. No mode and no rule allows that; a person can do it in a terminal")
