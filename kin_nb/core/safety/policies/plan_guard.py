from __future__ import annotations

from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class DenyWhilePlanning:
    """Plan mode changes nothing, whatever grants and allow rules say (seed 003, modes)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        changes_nothing_here = not (call.accesses.writes or call.accesses.everything)  # the network asks, as ever
        if context.mode is not AgentMode.PLAN or changes_nothing_here:
            return None
        what = f"{call.tool_name} {'may change something' if call.accesses.everything else 'changes files'}"
        if call.accesses.reason:
            what = f"only commands that are proven to change nothing run. This one is not: {call.accesses.reason}"
        return Decision.deny(
            f"plan mode is on, and {what}. Read with read_file, list_dir and grep; put what "
            "you would run or change into your plan. Only the person leaves plan mode (%kin mode default)"
        )
