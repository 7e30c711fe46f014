"""/tools, /mcp, /approvals, /skill:NAME and /flow:NAME: what the model can use."""

from __future__ import annotations

import sys
from pathlib import Path

from kin_nb.core.commands.host import CommandError, CommandHost, CommandResult, Table, UsageError
from kin_nb.core.config import overlaid
from kin_nb.core.config.entries import MCPServer
from kin_nb.core.modes import Policy
from kin_nb.core.paths import shown
from kin_nb.core.session_toolset import SessionToolset
from kin_nb.core.text import first_line, shorten
from kin_nb.core.tool_types import ToolError, ToolPermission
from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.manager import ToolManager

_LONGEST = 80


def tools(host: CommandHost, words: list[str]) -> CommandResult:
    """List the tools. Before the first prompt those of MCP servers are not known yet."""
    del words
    manager = toolset_of(host).manager
    found = manager.available_tools()
    rows = [(name, _permission(manager, name), _origin(tool), _first_line(tool)) for name, tool in found.items()]
    policy = overlaid(host.config(), host.mode).policy
    return CommandResult(
        f"{len(rows)} tools in mode {host.mode.shown} (policy {Policy(policy).value})",
        Table(("tool", "runs", "from", "what it does"), tuple(rows)),
        (
            "by policy: your rules first; then reading the workspace runs without asking, and all else as the mode says.",
        ),
    )


def mcp(host: CommandHost, words: list[str]) -> CommandResult:
    """List the MCP servers and their state, without starting one."""
    del words
    servers = host.config().mcp_servers
    if not servers:
        return CommandResult(
            "No MCP servers", lines=("Add a server as a [[mcp_servers]] table in ~/.kin-code/config.toml.",)
        )
    states = host.agent.toolset.server_states() if host.agent is not None else {}
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
        return "never: its settings are invalid"
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
    return shorten(first_line(tool.description), _LONGEST)


def approvals(host: CommandHost, words: list[str]) -> CommandResult:
    grants = host.agent.safety().grants if host.agent is not None else None
    given = grants.describe() if grants is not None else []
    if words:
        if len(words) != 2 or words[0] != "forget" or not (words[1] == "all" or words[1].isdecimal()):  # noqa: PLR2004
            raise UsageError("")
        if grants is None or not given:
            raise CommandError("Nothing was approved for this session.")
        index = None if words[1] == "all" else int(words[1]) - 1
        try:
            gone = grants.forget(index)
        except IndexError:
            raise CommandError(
                f"Approval {words[1]} does not exist; they are numbered from 1 to {len(given)}."
            ) from None
        return CommandResult("Revoked", lines=tuple(gone))
    if not given:
        return CommandResult("Nothing was approved for this session")
    lines = tuple(f"{number}. {what}" for number, what in enumerate(given, 1))
    return CommandResult("Approved for this session", lines=(*lines, "/approvals forget N revokes one."))


def skill(host: CommandHost, words: list[str]) -> CommandResult:
    """Check that the skill exists. The turn itself adds its text to the prompt."""
    skills = toolset_of(host).skills
    if not words[0]:
        raise UsageError(f"\nSkills: {', '.join(skills.available) or 'none'}.")
    skills.load(words[0])
    return CommandResult(prompt=" ".join([f"/skill:{words[0]}", *words[1:]]))


def flow(host: CommandHost, words: list[str]) -> CommandResult:
    skills = toolset_of(host).skills
    if not words[0]:
        raise UsageError(f"\nFlows: {', '.join(skills.flows) or 'none'}.")
    return CommandResult(prompt=" ".join(words[1:]), flow=skills.flow(words[0]))


def toolset_of(host: CommandHost) -> SessionToolset:
    """Return the agent's toolset, or before the first prompt a new one, without starting anything. Raises ConfigError."""
    if host.agent is not None:
        return host.agent.toolset
    return SessionToolset(overlaid(host.config(), host.mode), host.facts)
