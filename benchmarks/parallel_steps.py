"""Eight independent calls of a second each in one reply, beside the same calls one after the other. Budget: 1.3 s in all.

Commands (`sleep 1; echo n`), and calls of an MCP server that says that they only read.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.sizes import sized
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.config.entries import MCPStdio
from kin_nb.core.modes import AgentMode
from tests.model_server import ModelServer, tool_call

CALLS = sized(8, 2)
SECONDS = sized(1.0, 0.1)
"""That a call takes."""
BUDGET = 1.3
SERVER = """
import json, sys, threading, time
lock = threading.Lock()
def send(ident, result):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}), flush=True)
def call(message):
    time.sleep(float(sys.argv[1]))
    send(message["id"], {"content": [{"type": "text", "text": str(message["params"]["arguments"]["n"])}]})
for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            agreed = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
            send(message["id"], {**agreed, "serverInfo": {"name": "slow", "version": "0"}})
        case "tools/list":
            reads = {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}}
            send(message["id"], {"tools": [{"name": "wait", **reads}]})
        case "tools/call":
            threading.Thread(target=call, args=(message,), daemon=True).start()
"""


async def seconds(server: ModelServer, agent: Agent, replies: list[list[dict[str, Any]]]) -> float:
    for calls in replies:
        server.enqueue("", calls=calls)
    server.enqueue("Done.")
    started = time.perf_counter()
    async for event in agent.act("go"):
        del event
    took = time.perf_counter() - started
    assert [call.status for call in agent.turns[-1].calls] == ["ok"] * CALLS, agent.turns[-1]
    return took


async def run(server: ModelServer, workspace: Path) -> None:
    script = workspace / "slow_server.py"
    script.write_text(SERVER)
    config = KinConfig(
        workdir=workspace,
        active_model="m",
        loop_detection=False,
        providers=[ProviderConfig(name="p", api_base=server.url)],
        models=[ModelConfig(name="m", provider="p")],
        mcp_servers=[MCPStdio(name="slow", command=[sys.executable, "-ES", str(script), str(SECONDS)])],
    )
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    server.enqueue("Ready.")  # the server is started, and what is imported once is imported
    async for event in agent.act("go"):
        del event
    kinds = {
        "commands": [tool_call("bash", command=f"sleep {SECONDS}; echo {n}") for n in range(CALLS)],
        "MCP calls": [tool_call("slow_wait", n=n) for n in range(CALLS)],
    }
    for name, calls in kinds.items():
        together = await seconds(server, agent, [calls])
        serial = await seconds(server, agent, [[call] for call in calls])
        kept = "within" if together < BUDGET else "OVER"
        print(f"{CALLS} {name}: {together:.2f} s in one reply ({kept} {BUDGET} s), {serial:.2f} s one by one", end="")
        print(f": {serial / together:.1f} times as fast")
    await agent.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ModelServer.start() as server:
        os.environ["KIN_HOME"] = f"{folder}/home"
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        asyncio.run(run(server, workspace))


if __name__ == "__main__":
    main()
