from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.decision import Decision, ToolRequest

if TYPE_CHECKING:
    from kin_nb.core.safety.chain import SafetyContext


class DenyWhilePlanning:
    """Plan mode changes nothing, whatever the allow rules say (seed 003, modes)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.mode is not AgentMode.PLAN or call.accesses.only_reads:
            return None
        return Decision.deny("plan mode: nothing is changed until you leave it (%kin mode default)")
