from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest
from kin_nb.core.tool_types import ToolPermission


class DenyRules:
    """What the user's configuration forbids (permission = "never", or a denylist pattern) never runs."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.rule is not ToolPermission.NEVER:
            return None
        told = f"your configuration forbids this call of {call.tool_name} ([tools.{call.tool_name}])"
        return Decision.deny(context.rule_reason or told)
