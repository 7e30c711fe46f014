from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class AskWithoutUndo:
    """What may change anything asks while undo could not restore it, in every mode: no grant and no rule meant that."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if not (context.without_undo and call.may_change_anything):
            return None
        return Decision.ask(context.without_undo)
