"""What the policies of the chain may look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.grants import Grants
from kin_nb.core.tool_types import ToolPermission
from kin_nb.core.workspace import Workspace


@dataclass(frozen=True)
class SafetyContext:
    """`rule`: the tool's own word (permission, allowlist, denylist), None when it has none; `rule_reason` says why.

    `open_files`: resolved paths of files that a front end holds in memory, and will write over. `without_undo`: the
    sentence that says why undo cannot restore what a call changes now, "" when it can.
    """

    mode: AgentMode
    policy: Policy
    workspace: Workspace
    grants: Grants = field(default_factory=Grants)
    rule: ToolPermission | None = None
    rule_reason: str = ""
    open_files: frozenset[Path] = frozenset()
    without_undo: str = ""
