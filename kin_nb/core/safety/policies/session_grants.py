from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.safety.decision import Decision, ToolRequest

if TYPE_CHECKING:
    from kin_nb.core.safety.chain import SafetyContext


class AllowWhatWasGranted:
    """What a person approved "for this session", within the scope that the button named."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        grant = context.grants.covering(call)
        return Decision.allow(f"approved for this session: {grant.label}") if grant else None
