from __future__ import annotations

from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class DenyWhilePlanning:
    """Plan mode changes nothing, whatever the allow rules say (seed 003, modes)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.mode is not AgentMode.PLAN or call.accesses.only_reads:
            return None
        return Decision.deny("plan mode: nothing is changed until you leave it (%kin mode default)")
