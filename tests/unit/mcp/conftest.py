"""MCP servers that the tests start, and that must be gone when they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from kin_nb.core.config.entries import MCPStdio, MCPStreamableHttp
from kin_nb.core.tools.mcp import MCPServers
from tests.unit.mcp.http_server import HttpServer

SCRIPT = Path(__file__).parent / "servers" / "stdio_server.py"
Make = Callable[..., MCPServers]


def stdio(scenario: str = "normal", **fields: Any) -> MCPStdio:
    return MCPStdio(**{"name": "test", "command": [sys.executable, "-ES", str(SCRIPT), scenario], **fields})


def http(web: HttpServer, **fields: Any) -> MCPStreamableHttp:
    return MCPStreamableHttp(**{"name": "test", "url": web.url, **fields})


@pytest.fixture(autouse=True, scope="session")
def _imported() -> None:
    """`mcp` takes a second to import, which is not what these tests measure."""
    import kin_nb.core.tools.mcp.http
    import kin_nb.core.tools.mcp.session
    import kin_nb.core.tools.mcp.stdio  # noqa: F401


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Servers in `tmp_path`; afterwards none of them has left a process."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    made: list[MCPServers] = []

    def make(*servers: Any, **arguments: Any) -> MCPServers:
        made.append(MCPServers(servers, workdir=tmp_path, **arguments))
        return made[-1]

    yield make
    for servers in made:
        await servers.aclose()
    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert left == []


@pytest.fixture
def web() -> Iterator[HttpServer]:
    with HttpServer.start() as server:
        yield server


def tool(servers: MCPServers, name: str) -> Any:
    """The proxy of a tool; made from another's where the server has it and does not list it."""
    classes: dict[str, Any] = servers.tool_classes()
    found = classes.get(f"test_{name}")
    if found is None:
        other = next(iter(classes.values()))
        found = type(name, (other,), {"remote": replace(other.remote, name=name)})
    return found.from_config(found._get_tool_config_class()())


async def said(servers: MCPServers, name: str, **arguments: Any) -> str:
    """What the model gets to read of a call."""
    proxy = tool(servers, name)
    return proxy.to_model(await proxy.invoke(**arguments))


def lines(folder: Path, name: str) -> list[str]:
    """What a stdio server has noted."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pid: int) -> bool:
    """Whether it is, after the moment that a system may take to end what was killed."""
    return await until(lambda: not lives(pid))


async def until(condition: Callable[[], object], seconds: float = 10) -> bool:
    """Wait for what another process does; False when it does not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  (it sets no event of ours)
                await asyncio.sleep(0.01)
            return True
    return False
