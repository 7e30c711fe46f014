from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class DenyOpenFiles:
    """The notebook that is open stays as its front end has it. File tools only: what else writes names no paths."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        name = next((path.name for path in call.write_paths if path in context.open_files), None)
        if name is None:
            return None
        return Decision.deny(
            f"{name} is open in your front end, whose next save would overwrite the change; use the notebook tool, "
            "or ask the person to close it"
        )
