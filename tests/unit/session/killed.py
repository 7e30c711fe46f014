"""A session in a process of its own, that is killed at a moment that the test names; and what it is asked to do."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import Backend, KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.file_history.restore import Tree
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import SessionLog
from kin_nb.core.tools.file_tracker import FileTracker
from tests.model_server import ModelServer, tool_call

NAMES = ("a.py", "b.txt", "docs/c.md", "new/d.txt")
COMMANDS = (
    "sed -i.bak s/1/2/ a.py",
    "mv b.txt docs/moved.txt",
    "rm -f a.py",
    "mkdir -p deep/er && echo more >> deep/er/x.txt",
    "rm -rf docs",
    "ln -sf a.py link",
    "chmod +x a.py; touch empty",
    "printf '3\\n' > b.txt && false",
)
UNDO, REDO = "/undo", "/redo"
PRELOADED = ["kin_nb.core.llm.backend.generic", "kin_nb.core.tools.builtins.bash", "httpx", "httpx_sse"]
PRELOADED += [__name__, "anyio._backends._asyncio", "kin_nb.core.safety.shell.read_only.prover"]
"""What a session imports at first use: half of what one costs."""
HALFWAY = "echo half > b.txt; rm -f a.py; mkdir -p half/way; kill -9 $(ps -o ppid= -p $PPID) $$; touch never"
"""A command that kills the session: its parent is its supervisor, and the parent of that the session's process."""


@dataclass(frozen=True)
class Moment:
    """When it is killed: `record` lines are in the log, `look` calls have changed what they change, undo and redo are about
    to touch their `file`th file or folder, or an undo has put files back. 0: not so.
    """

    record: int = 0
    look: int = 0
    file: int = 0
    undo: int = 0


@dataclass
class Plan:
    """`turns`: for each its replies, for each its calls."""

    turns: list[list[list[dict[str, Any]]]] = field(default_factory=list)

    @classmethod
    def random(cls, chance: random.Random) -> Plan:
        return cls(
            [
                [[_call(chance) for _ in range(chance.choice((1, 1, 2, 3)))] for _ in range(chance.randint(1, 3))]
                for _ in range(chance.randint(1, 3))
            ]
        )

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [call for turn in self.turns for reply in turn for call in reply]

    @property
    def records(self) -> int:
        """Of the log, when every turn comes to its end."""
        return 1 + sum(2 + len(turn) + 1 for turn in self.turns) + 2 * len(self.calls)

    def enqueue(self, server: ModelServer) -> None:
        for turn in self.turns:
            for calls in turn:
                server.enqueue(None, calls=calls)
            server.enqueue("Done.")


def _call(chance: random.Random) -> dict[str, Any]:
    path = chance.choice(NAMES)
    match chance.randrange(5):
        case 0:
            return tool_call("write_file", path=path, content=f"{chance.random()}\n", overwrite=True)
        case 1:
            return tool_call("edit_file", path=path, old_string="1", new_string=str(chance.randrange(9)))
        case 2:
            return tool_call("read_file", path=path)
        case _:
            return tool_call("bash", command=chance.choice(COMMANDS))


def config(url: str, workspace: Path, rules: str = "openai") -> KinConfig:
    mistral: dict[str, Any] = {"backend": Backend.MISTRAL} if rules == "mistral" else {}
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=url, **mistral)],
        models=[ModelConfig(name="mistral-medium-latest", alias="m", provider="p")],
        loop_detection=False,
    )


def killed(home: Path, workspace: Path, url: str, prompts: Sequence[str], moment: Moment) -> int:
    """How the process ended: -SIGKILL, or 0 when the moment never came."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process: ForkServerProcess = context.Process(target=_session, args=(home, workspace, url, prompts, moment))
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def _session(home: Path, workspace: Path, url: str, prompts: Sequence[str], moment: Moment) -> None:
    os.environ["KIN_HOME"] = str(home)
    write, since, undo = SessionLog._write, FileTracker.since, FileTracker.undo
    records, looks, undos = _countdown(moment.record), _countdown(moment.look), _countdown(moment.undo)

    def write_and_die(self, record):
        write(self, record)
        next(records)

    async def die_or_look(self, before):
        if before is not None:
            next(looks)
        return await since(self, before)

    async def undo_and_die(self, *changes):
        restored = await undo(self, *changes)
        next(undos)
        return restored

    SessionLog._write, FileTracker.since, FileTracker.undo = write_and_die, die_or_look, undo_and_die
    _die_at_file(moment.file)
    asyncio.run(_turns(workspace, url, prompts))


def _die_at_file(number: int) -> None:
    files = _countdown(number)
    for name in ("remove", "remove_folder", "make_folder", "link", "write"):
        setattr(Tree, name, _counted(files, getattr(Tree, name)))


def _counted(files: Iterator[None], touch: Callable[..., None]) -> Callable[..., None]:
    def die_or_touch(*args, **options):
        next(files)
        touch(*args, **options)

    return die_or_touch


def _countdown(n: int) -> Iterator[None]:
    while True:
        n -= 1
        if n == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield


async def _turns(workspace: Path, url: str, prompts: Sequence[str]) -> None:
    make = Agent.resume if prompts[0] in {UNDO, REDO} else Agent
    agent = make(config(url, workspace), mode=AgentMode.AUTO_APPROVE)
    for prompt in prompts:
        if prompt in {UNDO, REDO}:
            await (agent.undo() if prompt == UNDO else agent.redo())
            continue
        async for _ in agent.act(prompt):
            pass
    await agent.aclose()
