"""What the model knows of files: in one process by their stamps, after a resume by the records."""

from __future__ import annotations

import os

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.modes import AgentMode
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

READ = tool_call("read_file", path="a.py")
EDIT = tool_call("edit_file", file_path="a.py", old_string="x = 1", new_string="x = 3")
STALE = "a.py has changed since you read it. Nothing was written"


def overwrite(content: str = "x = 1\nall new\n") -> dict:
    return tool_call("write_file", path="a.py", content=content, overwrite=True)


@pytest.fixture
async def session(model_server, config):
    """`session(calls...)`: a turn with these, by an agent that has just taken the session up again. Their records."""
    agents: list[Agent] = []

    async def turn(*calls: dict):
        if agents:
            await agents[-1].aclose()
        again = Agent.resume(config, mode=AgentMode.AUTO_APPROVE) if agents else Agent(config, AgentMode.AUTO_APPROVE)
        agents.append(again)
        for call in calls:
            model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        await run_turn(again)
        return again.turns[-1].calls

    turn.agents = agents
    yield turn
    await agents[-1].aclose()


async def test_a_change_that_keeps_size_and_time_is_seen(model_server, trusted, workspace):
    path = workspace / "a.py"
    model_server.enqueue(calls=[READ])
    model_server.enqueue("Read.")
    await run_turn(trusted)
    before = path.stat()
    with path.open("r+") as file:
        file.write("X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    model_server.enqueue(calls=[overwrite()])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert trusted.turns[-1].calls[0].output.startswith(STALE)
    assert path.read_text() == "X = 1\ny = 2\n"


async def test_a_file_that_changed_before_the_session_was_resumed_is_not_overwritten(session, workspace):
    await session(READ)
    (workspace / "a.py").write_text("x = 1\ny = 2\nsomebody = 'else'\n")
    refused, edited, still = await session(overwrite(), EDIT, overwrite())
    assert refused.output.startswith(STALE)
    assert edited.status == "ok"
    assert still.output.startswith(STALE)
    read, done = await session(READ, overwrite())
    assert (read.status, done.status) == ("ok", "ok")


@pytest.mark.parametrize("calls", [[READ], [overwrite()], [overwrite(), EDIT], [READ, overwrite(), EDIT]])
async def test_a_file_that_is_as_the_model_left_it_may_be_overwritten_after_a_resume(session, calls):
    assert {call.status for call in await session(*calls)} == {"ok"}
    (call,) = await session(overwrite("y\n"))
    assert call.status == "ok"


@pytest.mark.parametrize("calls", [[overwrite()], [overwrite(), EDIT]])
async def test_what_the_model_wrote_and_someone_changed_is_not_overwritten_after_a_resume(session, workspace, calls):
    await session(*calls)
    (workspace / "a.py").write_text("mine\n")
    (call,) = await session(overwrite())
    assert call.output.startswith(STALE)
    assert (workspace / "a.py").read_text() == "mine\n"


async def test_what_an_edit_of_a_file_that_was_read_left_unseen_stays_unknown(session):
    await session(READ, EDIT)
    (call,) = await session(overwrite())
    assert call.output.startswith(STALE)


async def test_what_an_undone_or_cleared_turn_read_is_not_known(session, workspace):
    await session(READ)
    await session.agents[-1].undo()
    (workspace / "a.py").write_text("mine\n")
    (call,) = await session(overwrite())
    assert call.status == "ok"
    await session(READ)
    await session.agents[-1].clear_history()
    (workspace / "a.py").write_text("mine\n")
    (call,) = await session(overwrite())
    assert call.status == "ok"


async def test_a_file_that_is_gone_and_comes_again_is_another_one(session, workspace):
    await session(READ)
    (workspace / "a.py").unlink()
    await session()
    (workspace / "a.py").write_text("mine\n")
    (call,) = await session(overwrite())
    assert call.output.startswith(STALE)


async def run(agent: Agent, model_server, *calls: dict) -> list[str]:
    """One turn with these calls: their statuses."""
    for call in calls:
        model_server.enqueue(calls=[call])
    model_server.enqueue("Done.")
    await run_turn(agent)
    return [call.status for call in agent.turns[-1].calls]


async def test_a_file_may_be_overwritten_after_undo_and_redo(model_server, trusted, workspace):
    assert await run(trusted, model_server, READ) == ["ok"]
    assert await run(trusted, model_server, overwrite()) == ["ok"]
    await trusted.undo()
    await trusted.redo()
    assert await run(trusted, model_server, overwrite("y\n")) == ["ok"]
    await trusted.undo()
    assert (workspace / "a.py").read_text() == "x = 1\nall new\n"
    assert await run(trusted, model_server, overwrite("z\n")) == ["ok"]


async def test_a_new_file_that_was_undone_and_redone_may_be_overwritten(model_server, trusted, workspace):
    new = tool_call("write_file", path="new", content="1\n", overwrite=True)
    assert await run(trusted, model_server, new) == ["ok"]
    await trusted.undo()
    await trusted.redo()
    assert await run(trusted, model_server, new) == ["ok"]
    await trusted.undo()
    (workspace / "new").write_text("by the user\n")
    assert await run(trusted, model_server, new) == ["error"]


async def test_a_file_that_the_user_changed_after_an_undo_is_not_overwritten(model_server, trusted, workspace):
    assert await run(trusted, model_server, READ) == ["ok"]
    assert await run(trusted, model_server, overwrite()) == ["ok"]
    await trusted.undo()
    (workspace / "a.py").write_text("by the user\n")
    assert await run(trusted, model_server, overwrite()) == ["error"]
