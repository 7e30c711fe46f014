"""The configured MCP servers, as the agent sees them: connect before a turn, then the classes of their tools.

One server is connected on first use, again when it has ended, and after a pause when it has failed.
"""

from __future__ import annotations

import asyncio
import operator
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from kin_nb.core.config.entries import MCPServer, MCPStdio
from kin_nb.core.config.keys import environment_with
from kin_nb.core.environment import server_environment
from kin_nb.core.redaction import SECRET, SHORTEST, is_secret_name
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.mcp.answers import RemoteTool, ServerFailed, capped, read_tools, tool_name
from kin_nb.core.tools.mcp.connection import Connection
from kin_nb.core.tools.mcp.proxy import MCPProxyTool, Progress, proxy_class

if TYPE_CHECKING:
    from kin_nb.core.tools.mcp.http import HttpLink
    from kin_nb.core.tools.mcp.stdio import StdioLink


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
        """Start all servers that are not connected, in parallel, each within its startup_timeout_sec.

        Returns a line for each one that failed and each tool that cannot be used. Costs nothing when all is well; a
        server that failed is tried again after a minute, then two, and so on.
        """
        warnings, self._warnings = self._warnings, []
        for lines in await asyncio.gather(*(server.connect() for server in self._servers)):
            warnings += lines
        return warnings

    async def refresh(self) -> list[str]:
        """Between the steps of a turn, list the tools again of servers that announced a change. Returns warnings."""
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
        """End all servers and their child processes. A later `connect` starts them again."""
        await asyncio.gather(*(server.aclose() for server in self._servers))


FIRST_PAUSE = 60.0
"""Seconds until a server that did not start is tried again; doubled each time."""
LONGEST_PAUSE = 3_600.0
MOST_TOOLS = 1_000
"""Of one server that are offered."""
MOST_WARNINGS = 10
"""About the tools of one server."""


class ManagedServer:
    """`tools`: those of the server's last list. They stay while it is disconnected, so that a call can start it again."""

    def __init__(self, config: MCPServer, *, workdir: Path, environ: Mapping[str, str] | None) -> None:
        self.config = config
        self.tools: list[RemoteTool] = []
        self._workdir, self._given_environ = workdir, environ
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._warnings: list[str] = []
        self._pause, self._retry_at, self._failure = FIRST_PAUSE, 0.0, ""
        self._secrets: set[str] = set()

    @property
    def state(self) -> str:
        """In words, as far as it is known without asking it."""
        if self._connection is not None:
            return "connected"
        return self._named(f"failed: {self._failure}") if self._retry_at else "starts with the next prompt"

    async def connect(self) -> list[str]:
        """Connect and list the tools. Returns warnings that say why not; no warnings during the pause after a failure."""
        async with self._on_this_loop():
            try:
                if self._connection is None or not await self._connection.answers():
                    if monotonic() >= self._retry_at:
                        await self._open()
                    return self._take_warnings()
            except ServerFailed as error:
                self._warnings.append(self._named(str(error)))
        return await self.refresh()

    async def refresh(self) -> list[str]:
        """List the tools again if the server has said that they changed; returns warnings. Starts nothing."""
        async with self._on_this_loop():
            try:
                if self._connection is not None and self._connection.list_changed:
                    self._take(await self._connection.list_tools(self.config.startup_timeout_sec))
            except ServerFailed as error:
                self._warnings.append(self._named(str(error)))
            return self._take_warnings()

    async def call(self, tool: RemoteTool, arguments: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        """Raises ToolError."""
        async with self._on_this_loop():
            connection = await self._connected(tool)
        try:
            return await connection.call(tool.name, arguments, progress, self.config.tool_timeout_sec)
        except ServerFailed as error:
            raise ToolError(
                self._without_secrets(f"{self._name} is gone: {error}. It is started again with the next call.")
            ) from error
        except ToolError as error:
            raise ToolError(self._named(capped(str(error)))) from error

    async def aclose(self) -> None:
        async with self._on_this_loop():
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    def _on_this_loop(self) -> asyncio.Lock:
        """Return the lock, after releasing what belongs to another event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._connection is not None:
                self._connection.abandon()
            self._loop, self._connection, self._lock = loop, None, asyncio.Lock()
        return self._lock

    async def _connected(self, tool: RemoteTool) -> Connection:
        """Raises ToolError: it cannot be reached, or the tool is not the one that was offered."""
        try:
            if self._connection is not None and await self._connection.answers():
                return self._connection
            wait = self._retry_at - monotonic()
            if wait > 0:
                raise ServerFailed(f"{self._failure}. It is tried again in {wait:.0f} s")  # noqa: TRY301
            connection = await self._open()
        except ServerFailed as error:
            raise ToolError(self._named(str(error))) from error
        if all(now.fingerprint != tool.fingerprint for now in self.tools):
            raise ToolError(
                f"{self._name} was started again and defines this tool differently now.\n"
                "Read its new definition, then call it again."
            )
        return connection

    async def _open(self) -> Connection:
        """Raises ServerFailed."""
        self._connection = None
        try:
            connection = Connection(self._link())
            self._take(await connection.open(self.config.startup_timeout_sec))
        except ServerFailed as error:
            self._failure = str(error)
            self._retry_at = monotonic() + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            raise
        self._connection, self._pause, self._retry_at = connection, FIRST_PAUSE, 0.0
        return connection

    def _take_warnings(self) -> list[str]:
        warnings, self._warnings = self._warnings, []
        return warnings

    def _take(self, listed: tuple[list[Any], list[str]]) -> None:
        raw, problems = listed
        tools, more = read_tools(raw, self.config.disabled_tools)
        self.tools = tools[:MOST_TOOLS]
        if left_out := len(tools) - len(self.tools):
            problems.append(
                f"{left_out:,} of its {len(tools):,} tools are left out: at most {MOST_TOOLS:,} are offered. "
                "Name those that you do not need in its disabled_tools."
            )
        problems = [*problems, *more]
        if len(problems) > MOST_WARNINGS:
            problems[MOST_WARNINGS:] = [f"there are {len(problems) - MOST_WARNINGS} more problems with its tools"]
        self._warnings += [self._named(problem) for problem in problems]

    def _link(self) -> StdioLink | HttpLink:
        """Raises ServerFailed when the configuration cannot be used."""
        if not isinstance(self.config, MCPStdio):
            from kin_nb.core.tools.mcp.http import HttpLink  # noqa: PLC0415  (mcp costs a second)

            headers, given = self.config.http_headers(), self.config.headers
            secret = [value for name, value in headers.items() if name not in given or is_secret_name(name)]
            self._secrets = {word for value in secret for word in value.split()}
            return HttpLink(self.config)
        from kin_nb.core.tools.mcp.stdio import StdioLink  # noqa: PLC0415  (on first use)

        try:
            argv = self.config.argv()
            own = {name: self._expanded(name, value) for name, value in self.config.env.items()}
        except ValueError as error:
            raise ServerFailed(f"{error}; check command and env in its [[mcp_servers]]") from error
        try:
            cwd = self._workdir / (self.config.cwd or Path()).expanduser()
            in_the_workspace = cwd.resolve().is_relative_to(self._workdir.resolve())
        except (RuntimeError, ValueError, OSError) as error:  # an unknown ~name, a loop, a NUL
            raise ServerFailed(f"{str(error).rstrip('.')}; check cwd in its [[mcp_servers]]") from error
        self._secrets = {own[name] for name, value in self.config.env.items() if is_secret_name(name) or "${" in value}
        inherited = server_environment(self._environ, self.config.env_vars)
        self._secrets |= {value for name, value in inherited.items() if is_secret_name(name)}
        if in_the_workspace:
            inherited["PYTHONSAFEPATH"] = "1"  # `python -m server` must not run a server.py of the workspace
        return StdioLink(argv, cwd=cwd, environment={**inherited, **own})

    @property
    def _environ(self) -> Mapping[str, str]:
        if self._given_environ is not None or not isinstance(self.config, MCPStdio):
            return os.environ if self._given_environ is None else self._given_environ
        expanded = re.findall(r"\$\{(\w+)\}", " ".join(self.config.env.values()))
        return environment_with([*self.config.env_vars, *expanded])

    def _expanded(self, name: str, value: str) -> str:
        """`${VAR}` from our own environment, so that the file need not contain a secret. Raises ValueError."""

        def of(match: re.Match[str]) -> str:
            if match[1] not in self._environ:
                raise ValueError(f"env.{name} wants {match[0]}, and there is no such variable")
            return self._environ[match[1]]

        return re.sub(r"\$\{(\w+)\}", of, value)

    @property
    def _name(self) -> str:
        return f"MCP server {self.config.name}"

    def _named(self, text: str) -> str:
        return f"{self._name}: {self._without_secrets(text)}"

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            if len(secret) >= SHORTEST:
                text = text.replace(secret, SECRET)
        return text
