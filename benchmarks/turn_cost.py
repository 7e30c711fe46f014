"""The agent's own cost of a step, from 20 to 400 steps in one turn. Budget: 5 ms CPU, flat.

Each step reads a file; the model server runs in a process of its own, so that its CPU is not counted.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.modes import AgentMode
from tests.model_server import ModelServer, tool_call

STEPS = (20, 100, 400)


def serve(steps: int, pipe: Connection) -> None:
    with ModelServer.start() as server:
        for _ in range(steps):
            server.enqueue("Reading.", calls=[tool_call("read_file", path="module.py", limit=60)], chunk=16)
        server.enqueue("Done.")
        pipe.send(server.url)
        pipe.recv()


async def run(url: str, workspace: Path) -> float:
    config = KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=url)],
        models=[ModelConfig(name="m", provider="p")],
    )
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    started = time.process_time()
    async for event in agent.act("Work through it."):
        del event
    assert agent.turns[-1].outcome == "done", agent.turns[-1].message
    await agent.aclose()
    return time.process_time() - started


def main() -> None:
    spent = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KIN_HOME"] = f"{folder}/home"
        (Path(folder) / "module.py").write_text(
            "".join(f"def function_{i}(x):\n    return x + {i}\n\n" for i in range(100))
        )
        for steps in STEPS:
            ours, theirs = multiprocessing.Pipe()
            server = multiprocessing.Process(target=serve, args=(steps, theirs))
            server.start()
            spent[steps] = asyncio.run(run(ours.recv(), Path(folder)))
            ours.send(None)
            server.join()
            print(f"{steps:>4} steps: {spent[steps]:.2f} s CPU")
    for few, many in itertools.pairwise(STEPS):
        print(f"{few} -> {many}: {(spent[many] - spent[few]) / (many - few) * 1000:.2f} ms CPU a step")


if __name__ == "__main__":
    main()
