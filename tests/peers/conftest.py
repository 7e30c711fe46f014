"""MCP servers by others, installed by `make peers`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.config.entries import MCPServer, MCPStdio, MCPStreamableHttp
from kin_nb.core.tools.mcp import MCPResult, MCPServers

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv" / "peers"
EVERYTHING = PEERS / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


@dataclass(frozen=True)
class Connected:
    """Servers that are connected, and a way to call their tools."""

    servers: MCPServers

    def tool(self, name: str) -> Any:
        found = self.servers.tool_classes()[name]
        return found.from_config(found._get_tool_config_class()())

    async def call(self, name: str, **arguments: Any) -> MCPResult:
        return await self.tool(name).invoke(**arguments)

    async def said(self, name: str, **arguments: Any) -> str:
        tool = self.tool(name)
        return tool.to_model(await tool.invoke(**arguments))


Connect = Callable[..., Awaitable[Connected]]


@pytest.fixture(autouse=True, scope="session")
def _installed() -> None:
    if not (PEERS / "installed").exists():
        pytest.fail(f"The servers are not in {PEERS.relative_to(ROOT)}: make peers", pytrace=False)


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """Connect to servers, whose workspace is `tmp_path`, without a warning."""
    made: list[MCPServers] = []

    async def connect(*servers: MCPServer) -> Connected:
        made.append(MCPServers(servers, workdir=tmp_path))
        assert await made[-1].connect() == []
        return Connected(made[-1])

    yield connect
    for servers in made:
        await servers.aclose()


@pytest.fixture(scope="session")
def everything_url() -> Iterator[str]:
    """server-everything over HTTP, kept to 127.0.0.1 by loopback.cjs."""
    command = ["node", "--require", str(Path(__file__).parent / "loopback.cjs"), str(EVERYTHING), "streamableHttp"]
    process = subprocess.Popen(
        command, env={**os.environ, "PORT": "0"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    with process.stderr:
        try:
            port = next(line.partition(":")[2] for line in process.stderr if line.startswith("loopback:"))
            yield f"http://127.0.0.1:{port.strip()}/mcp"
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    with (folder / ".git" / "config").open("a") as config:
        config.write("[user]\nname = a\nemail = a@example.com\n")
    return folder


@pytest.fixture(params=["stdio", "http"])
def everything(request: pytest.FixtureRequest) -> MCPServer:
    """server-everything over either transport."""
    if request.param == "stdio":
        return MCPStdio(name="all", command=["node", str(EVERYTHING), "stdio"])
    return MCPStreamableHttp(name="all", url=request.getfixturevalue("everything_url"))


def filesystem(folder: Path) -> MCPStdio:
    return MCPStdio(
        name="files", command=str(PEERS / "node_modules" / ".bin" / "mcp-server-filesystem"), args=[str(folder)]
    )


def git(folder: Path) -> MCPStdio:
    return MCPStdio(name="git", command=str(PEERS / "bin" / "mcp-server-git"), args=["--repository", str(folder)])


def time() -> MCPStdio:
    return MCPStdio(name="time", command=str(PEERS / "bin" / "mcp-server-time"), args=["--local-timezone", "UTC"])
