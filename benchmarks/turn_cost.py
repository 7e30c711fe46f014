"""The agent's own cost of a step, from 20 to 400 steps in one turn. Budget: 5 ms CPU, flat.

Each step reads another file, so that the loop detector has work and nothing to stop. The model server runs in a process of
its own, so that its CPU is not counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.sizes import sized
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.modes import AgentMode
from tests.model_server import ModelServer, tool_call

STEPS = sized((20, 100, 400), (2, 4))


def name(number: int) -> str:
    """A file's, unlike the others' names."""
    return f"{hashlib.sha256(str(number).encode()).hexdigest()[:12]}.py"


def module(number: int) -> str:
    """60 lines, unlike those of other files."""
    words = [hashlib.sha256(f"{number} {line}".encode()).hexdigest()[:20] for line in range(20)]
    return "".join(f"def f_{word}(x):\n    return x + 0x{word}\n\n" for word in words)


def serve(steps: int, pipe: Connection) -> None:
    with ModelServer.start() as server:
        for number in range(steps):
            server.enqueue("Reading.", calls=[tool_call("read_file", path=name(number))], chunk=16)
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
        for number in range(max(STEPS)):
            (Path(folder) / name(number)).write_text(module(number))
        for steps in (min(STEPS), *STEPS):  # the first imports what a first request needs: no cost of a step
            ours, theirs = multiprocessing.Pipe()
            server = multiprocessing.Process(target=serve, args=(steps, theirs), daemon=True)
            server.start()
            theirs.close()  # a server that fails is an EOFError here
            spent[steps] = asyncio.run(run(ours.recv(), Path(folder)))
            ours.send(None)
            server.join()
    for steps in STEPS:
        print(f"{steps:>4} steps: {spent[steps]:.2f} s CPU")
    for few, many in itertools.pairwise(STEPS):
        print(f"{few} -> {many}: {(spent[many] - spent[few]) / (many - few) * 1000:.2f} ms CPU a step")


if __name__ == "__main__":
    main()
