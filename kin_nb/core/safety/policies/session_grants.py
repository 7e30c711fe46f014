from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class AllowWhatWasGranted:
    """What a person approved "for this session", within the scope that the button named."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        grant = context.grants.covering(call, context.workspace)
        return Decision.allow(f"approved for this session: {grant.label}") if grant else None
