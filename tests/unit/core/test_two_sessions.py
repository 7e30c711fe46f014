"""Two sessions in one workspace: what one of them writes while the other's command runs is not the other's to undo."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import ToolOutputEvent
from kin_nb.core.modes import AgentMode
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

WAIT = "; echo begun; until [ -e go ]; do sleep 0.02; done"
NAMED = "not covered: b was written by another session meanwhile"


@pytest.fixture
async def other(workspace: Path):
    """`other(calls...)`: a turn with these, one by one, of a session with a server of its own. `other.agent`."""
    with ModelServer.start() as server:
        config = KinConfig(
            workdir=workspace,
            active_model="m",
            providers=[ProviderConfig(name="p", api_base=server.url)],
            models=[ModelConfig(name="m", provider="p")],
        )
        agent = Agent(config, AgentMode.AUTO_APPROVE)

        async def turn(*calls: dict) -> None:
            for call in calls:
                server.enqueue(calls=[call])
            server.enqueue("Done.")
            await run_turn(agent)

        turn.agent = agent
        yield turn
        await agent.aclose()


@pytest.fixture
def while_it_runs(model_server, trusted, workspace):
    """A turn with that command of `trusted`, and `then` as soon as it has begun; it ends when there is a file `go`."""

    async def run(command: str, then) -> None:
        model_server.enqueue(calls=[tool_call("bash", command=command)])
        model_server.enqueue("Done.")
        begun = asyncio.Event()

        async def turn() -> None:
            async for event in trusted.act("go"):
                if isinstance(event, ToolOutputEvent):
                    begun.set()

        task = asyncio.create_task(turn())
        await begun.wait()
        await then
        (workspace / "go").write_text("")
        await task

    (workspace / "a").write_text("a0\n")
    (workspace / "b").write_text("b0\n")
    return run


def write(path: str, content: str) -> dict:
    return tool_call("write_file", path=path, content=content, overwrite=True)


async def test_what_another_sessions_tools_wrote_meanwhile_is_not_undone_and_is_named(
    while_it_runs, trusted, other, workspace
):
    await while_it_runs(f"echo a1 > a{WAIT}", other(write("b", "b1\n")))
    (call,) = trusted.turns[-1].calls
    assert ([change.path for change in call.files], call.uncovered) == (["a", "go"], NAMED)
    record = await trusted.undo()
    assert record.uncovered == (NAMED,)
    assert ((workspace / "a").read_text(), (workspace / "b").read_text()) == ("a0\n", "b1\n")
    record = await other.agent.undo()
    assert ([change.path for change in record.files], record.kept) == (["b"], ())
    assert (workspace / "b").read_text() == "b0\n"


async def test_what_the_command_changed_after_the_other_session_is_undone_to_what_that_wrote(
    while_it_runs, trusted, other, workspace
):
    await while_it_runs(f"true{WAIT}; echo mine >> b", other(write("b", "b1\n")))
    await trusted.undo()
    assert (workspace / "b").read_text() == "b1\n"
    await trusted.redo()
    assert (workspace / "b").read_text() == "b1\nmine\n"


async def test_what_another_session_undoes_meanwhile_stays_undone(while_it_runs, trusted, other, workspace):
    await other(write("b", "b1\n"))
    await while_it_runs(f"echo a1 > a{WAIT}", other.agent.undo())
    await trusted.undo()
    assert ((workspace / "a").read_text(), (workspace / "b").read_text()) == ("a0\n", "b0\n")


async def test_what_another_session_wrote_before_is_as_any_other_file(while_it_runs, trusted, other, workspace):
    await other(write("b", "b1\n"))
    await while_it_runs(f"echo b2 > b{WAIT}", asyncio.sleep(0))
    assert trusted.turns[-1].calls[0].uncovered == ""
    await trusted.undo()
    assert (workspace / "b").read_text() == "b1\n"
