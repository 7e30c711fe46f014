"""All configured servers, as the agent sees them: connect before a turn, then the classes of their tools."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path

from kin_nb.core.config.entries import MCPServer
from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.mcp.definitions import RemoteTool, tool_name
from kin_nb.core.tools.mcp.managed_server import ManagedServer
from kin_nb.core.tools.mcp.proxy import MCPProxyTool, proxy_class


class MCPServers:
    """Nothing is started before `connect`. `environ`: this process's environment when absent."""

    def __init__(
        self,
        servers: Sequence[MCPServer],
        *,
        workdir: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        enabled = [server for server in servers if not server.disabled]
        named = {server.name: server for server in reversed(enabled)}
        self._warnings = [
            f"MCP server {name}: the name is given twice; the first [[mcp_servers]] of that name counts"
            for name in named
            if sum(server.name == name for server in enabled) > 1
        ]
        self._servers = [
            ManagedServer(server, workdir=workdir, environ=environ)
            for server in enabled
            if named[server.name] is server
        ]
        self._classes: dict[tuple[str, str, str], type[MCPProxyTool]] = {}
        self._found: dict[str, type[AnyTool]] = {}
        self._lists: list[list[RemoteTool]] | None = None
        """What `_found` was made of."""

    async def connect(self) -> list[str]:
        """Every server that is not connected is started, all at once, each within its startup_timeout_sec.

        Returns a line for each one that failed and each tool that cannot be used. Costs nothing when all is well; a
        server that failed is tried again after a minute, then two, and so on.
        """
        warnings, self._warnings = self._warnings, []
        for lines in await asyncio.gather(*(server.connect() for server in self._servers)):
            warnings += lines
        return warnings

    async def refresh(self) -> list[str]:
        """Between the steps of a turn: the tools of servers that have said that theirs changed. Returns warnings."""
        warnings: list[str] = []
        for lines in await asyncio.gather(*(server.refresh() for server in self._servers)):
            warnings += lines
        return warnings

    def tool_classes(self) -> dict[str, type[AnyTool]]:
        """`{server}_{tool}` -> class: servers in the order of the configuration, tools as listed.

        A class stays the same object while its definition does, and the whole while no list changed. No name is a
        built-in tool's, or another server's.
        """
        lists = [server.tools for server in self._servers]
        if self._lists is not None and all(map(operator.is_, lists, self._lists)):
            return self._found
        from kin_nb.core.tools.builtins import builtin_tools  # noqa: PLC0415  (tools are read on first use)

        built_in = builtin_tools()
        found: dict[str, type[AnyTool]] = {}
        known, self._classes = self._classes, {}
        for server in self._servers:
            for tool in server.tools:
                name = tool_name(server.config.name, tool.name, {*built_in, *found})
                key = (name, server.config.name, tool.fingerprint)
                self._classes[key] = known.get(key) or proxy_class(name, server.config, tool, server)
                found[name] = self._classes[key]
        self._lists, self._found = lists, found
        return found

    def states(self) -> dict[str, tuple[str, list[str]]]:
        """By name: the state in words, and the names of the tools that the server listed last."""
        return {server.config.name: (server.state, [tool.name for tool in server.tools]) for server in self._servers}

    async def aclose(self) -> None:
        """No child process is left, nor any of theirs. A later `connect` starts them again."""
        await asyncio.gather(*(server.aclose() for server in self._servers))
