"""A tool class for each tool of a server (seed 000: MCP tool proxies)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from pydantic import RootModel, field_validator

from kin_nb.core.config.entries import MCPServer, MCPStdio
from kin_nb.core.messages import ImageContent
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview
from kin_nb.core.tools.base import BaseTool, tool_output
from kin_nb.core.tools.mcp.answers import MCPResult, RemoteTool, printable, read_result

_LONGEST_SUMMARY = 100
_MOST_PROGRESS = 1_000
"""Lines of progress shown live for one call."""

Progress = Callable[[str], None]


class Caller(Protocol):
    """Who carries a call to its server. Raises ToolError."""

    async def call(self, tool: RemoteTool, arguments: dict[str, Any], progress: Progress | None) -> dict[str, Any]: ...


class MCPArgs(RootModel[dict[str, Any]]):
    """Arguments as the model gave them: the server validates them against its own schema."""

    @field_validator("root")
    @classmethod
    def _can_be_sent(cls, root: dict[str, Any]) -> dict[str, Any]:
        json.dumps(root, ensure_ascii=False, allow_nan=False).encode()  # half a character, a number that is none
        return root


class MCPProxyTool(BaseTool[MCPArgs, MCPResult, BaseToolConfig, BaseToolState]):
    """Subclasses are made by `proxy_class`. A server's readOnlyHint is only its word: it lets calls run side by side."""

    name: ClassVar[str]
    server: ClassVar[str]
    remote: ClassVar[RemoteTool]
    fingerprint: ClassVar[str]
    """Changes with the definition: an "always allow" for another fingerprint is void."""
    caller: ClassVar[Caller]

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        return cls.remote.schema

    def accesses(self, args: MCPArgs) -> Accesses:  # noqa: ARG002
        return Accesses(everything=True, shared=self.remote.says_it_reads)

    def preview(self, args: MCPArgs) -> Preview:
        short = json.dumps(args.root, ensure_ascii=False)
        return Preview(
            summary=f"{self.server}: {printable(self.remote.name)} {printable(short, _LONGEST_SUMMARY)}",
            body=json.dumps(args.root, indent=2, ensure_ascii=False),
            claim=self.remote.description,
        )

    async def run(self, args: MCPArgs) -> MCPResult:
        """Raises ToolError when the tool fails, the server is gone, or the time is up."""
        return read_result(await self.caller.call(self.remote, args.root, _live_progress()))

    def images(self, result: MCPResult) -> list[ImageContent]:
        return result.images

    def to_model(self, result: MCPResult) -> str:
        pictures = [f"[{len(result.images)} picture{'s' if len(result.images) > 1 else ''}]"] if result.images else []
        return "\n".join(filter(None, (result.text, result.structured, *pictures))) or "[no output]"


class MCPHttpProxyTool(MCPProxyTool):
    """A tool of a server over HTTP."""


class MCPStdioProxyTool(MCPProxyTool):
    """A tool of a server that is a child process."""


def proxy_class(name: str, config: MCPServer, remote: RemoteTool, caller: Caller) -> type[MCPProxyTool]:
    base = MCPStdioProxyTool if isinstance(config, MCPStdio) else MCPHttpProxyTool
    hint = f"\nHint: {config.prompt}" if config.prompt else ""
    members = {
        "__module__": __name__,
        "description": f"[{config.name}] {remote.description}{hint}",
        "name": name,
        "server": config.name,
        "remote": remote,
        "fingerprint": remote.fingerprint,
        "caller": caller,
    }
    return type(name, (base,), members)


def _live_progress() -> Progress | None:
    """Return the function that shows progress as live output. Bound now: progress arrives in a task with another context."""
    sink = tool_output.get()
    if sink is None:
        return None
    left = _MOST_PROGRESS

    def show(text: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            sink(f"{printable(text, 500)}\n")

    return show
