"""/tools and /mcp."""

from __future__ import annotations

import sys
from pathlib import Path

from kin_nb.core.commands.toolbox import toolbox_of
from kin_nb.core.commands.values import CommandHost, CommandResult, Table
from kin_nb.core.config import overlaid
from kin_nb.core.config.mcp_servers import MCPServer
from kin_nb.core.modes import Policy
from kin_nb.core.paths import shown
from kin_nb.core.tool_types import ToolError, ToolPermission
from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.manager import ToolManager

_LONGEST = 80


def tools(host: CommandHost, words: list[str]) -> CommandResult:
    """Also before the first prompt, when the tools of MCP servers are not known yet."""
    del words
    manager = toolbox_of(host).manager
    found = manager.available_tools()
    rows = [(name, _permission(manager, name), _origin(tool), _first_line(tool)) for name, tool in found.items()]
    policy = overlaid(host.config(), host.mode).policy
    return CommandResult(
        f"{len(rows)} tools in mode {host.mode.shown}, policy {Policy(policy).value}",
        Table(("tool", "runs", "from", "what it does"), tuple(rows)),
        ("by policy: reads of the workspace run unasked, the rest as mode and policy say; your rules come first.",),
    )


def mcp(host: CommandHost, words: list[str]) -> CommandResult:
    """Starts nothing."""
    del words
    servers = host.config().mcp_servers
    if not servers:
        return CommandResult("No MCP servers", lines=("[[mcp_servers]] in config.toml names them.",))
    states = host.agent.toolbox.server_states() if host.agent is not None else {}
    rows = [(server.name, server.transport, *_state(server, states)) for server in servers]
    return CommandResult(
        f"{len(rows)} MCP server{'' if len(rows) == 1 else 's'}",
        Table(("server", "transport", "state", "tools"), tuple(rows)),
    )


def _state(server: MCPServer, states: dict[str, tuple[str, list[str]]]) -> tuple[str, str]:
    if server.disabled:
        return "disabled", ""
    state, offered = states.get(server.name, ("starts with the first prompt", []))
    return state, ", ".join(offered)


def _permission(manager: ToolManager, name: str) -> str:
    try:
        config = manager.get_tool_config(name)
    except ToolError:
        return "not at all: its settings are wrong"
    rules = len(config.allowlist) + len(config.denylist)
    word = {ToolPermission.ALWAYS: "always", ToolPermission.NEVER: "never"}.get(config.permission, "by policy")
    return f"{word}, {rules} rule{'' if rules == 1 else 's'}" if rules else word


def _origin(tool: type[AnyTool]) -> str:
    server = getattr(tool, "server", None)
    if isinstance(server, str):
        return f"MCP server {server}"
    if tool.__module__.startswith("kin_nb."):
        return "built in"
    file = getattr(sys.modules.get(tool.__module__), "__file__", None)
    return shown(Path(file)) if file else tool.__module__


def _first_line(tool: type[AnyTool]) -> str:
    line = next((line.strip() for line in tool.description.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
