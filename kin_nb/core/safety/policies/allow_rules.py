from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest
from kin_nb.core.tool_types import ToolPermission


class AllowRules:
    """What the user's configuration allows (permission = "always", or an allowlist pattern)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.rule is not ToolPermission.ALWAYS:
            return None
        return Decision.allow(f"your configuration allows this call of {call.tool_name} ([tools.{call.tool_name}])")
