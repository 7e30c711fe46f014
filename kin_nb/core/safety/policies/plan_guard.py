from __future__ import annotations

from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class DenyWhilePlanning:
    """Plan mode changes nothing, whatever grants and allow rules say (seed 003, modes)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.mode is not AgentMode.PLAN or call.accesses.only_reads:
            return None
        what = "may change something" if call.accesses.everything else "changes files"
        return Decision.deny(
            f"plan mode is on, and {call.tool_name} {what}. Read with read_file, list_dir and grep; put what "
            "you would run or change into your plan. Only the person leaves plan mode (%kin mode default)"
        )
