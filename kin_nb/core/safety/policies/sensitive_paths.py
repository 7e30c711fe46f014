from __future__ import annotations

from pathlib import Path

from kin_nb.core.modes import Policy
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest
from kin_nb.core.sensitive_names import Access


class AskForSensitivePaths:
    """Secrets, files that run later and files that others obey ask every time: only yolo covers them.

    The names are in sensitive_names.py.
    """

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return None
        accesses: tuple[tuple[Access, tuple[Path, ...]], ...] = (("write", call.write_paths), ("read", call.read_paths))
        for access, paths in accesses:
            for path in paths:
                why = context.workspace.is_sensitive(path, access)
                if why:
                    return Decision.ask(f"{context.workspace.relative(path)}: {why}")
        return None
