"""How risky a call is (seed 004): one word for the policies, for whoever is asked, and for the audit log."""

from __future__ import annotations

from kin_nb.core.safety.decision import Risk, ToolRequest
from kin_nb.core.workspace import Workspace


def risk_of(call: ToolRequest, workspace: Workspace) -> Risk:
    """Low: only reads. Medium: writes files. High: all else, and whatever is outside the workspace or sensitive.

    What a tool does not declare is high: commands that are not proven to read only, and with them every deletion; requests
    to the network; MCP servers, whatever they say of themselves.
    """
    if call.accesses.everything or call.accesses.network:
        return Risk.HIGH
    if not all(map(workspace.contains, (*call.read_paths, *call.write_paths))):
        return Risk.HIGH
    if any(map(workspace.is_sensitive, call.read_paths)):
        return Risk.HIGH
    if any(workspace.is_sensitive(path, "write") for path in call.write_paths):
        return Risk.HIGH
    return Risk.MEDIUM if call.accesses.writes else Risk.LOW


def is_command(call: ToolRequest) -> bool:
    """Whether it runs a program, also one that is proven to only read."""
    return isinstance(getattr(call.args, "command", None), str)
