from __future__ import annotations

from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest


class AskWithoutUndo:
    """What may change anything, or a file that is there, asks while undo could not restore it, in every mode.

    No grant and no rule meant that.
    """

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if not (context.without_undo and call.may_lose_content):
            return None
        return Decision.ask(context.without_undo)
