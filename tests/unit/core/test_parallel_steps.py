"""The calls of one reply: what runs side by side, what keeps its order, and what the model and the person get of it.

No test measures time: calls wait for each other, or for the test, and end only if they run as they should.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.config.entries import MCPStdio
from kin_nb.core.events import ApprovalRequestEvent, ToolOutputEvent, ToolResultEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState
from kin_nb.core.tools.base import BaseTool
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

SERVER = Path(__file__).parents[1] / "mcp" / "servers" / "meeting_server.py"
SECONDS = 60
"""What a command or a call may take that waits for another one: only a failing test waits so long."""


def bash(command: str) -> dict:
    return tool_call("bash", command=command, timeout=SECONDS)


def edit(path: str, old: str, new: str) -> dict:
    return tool_call("edit_file", path=path, old_string=old, new_string=new)


def answers(model_server) -> list[str]:
    """What the model got for the calls of the first reply, in order."""
    return [m["content"] for m in model_server.requests[1]["messages"] if m["role"] == "tool"]


class _Args(BaseModel):
    n: int = 0


class _Result(BaseModel):
    n: int


class _Reads(BaseTool[_Args, _Result, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Changes nothing"

    def accesses(self, args: _Args) -> Accesses:
        return Accesses(reads=("a.py",))


class Waits(_Reads):
    """Ends when the test says so, which knows what has begun. `waits` makes one for each test."""

    began: ClassVar[asyncio.Queue[int]]
    may_end: ClassVar[asyncio.Event]

    async def run(self, args: _Args) -> _Result:
        self.began.put_nowait(args.n)
        await self.may_end.wait()
        return _Result(n=args.n)


@pytest.fixture
def waits(agent: Agent, trusted: Agent) -> type[Waits]:
    made = type("Waits", (Waits,), {"began": asyncio.Queue(), "may_end": asyncio.Event()})
    for each in (agent, trusted):
        each.tool_manager.add(made)
    return made


async def test_eight_commands_that_only_read_run_at_once(model_server, agent):
    model_server.enqueue(calls=[bash(f"echo begun {n}; sleep {SECONDS}") for n in range(8)])
    begun = set()
    async with aclosing(agent.act("go")) as events:
        async for event in events:
            assert not isinstance(event, ToolResultEvent)
            if isinstance(event, ToolOutputEvent):
                begun.add(event.text)
            if len(begun) == 8:
                break
    assert begun == {f"begun {n}\n" for n in range(8)}


async def with_server(config: Any, guests: int, mode: AgentMode = AgentMode.AUTO_APPROVE) -> Agent:
    command = [sys.executable, "-ES", str(SERVER), str(guests)]
    server = MCPStdio(name="test", command=command, tool_timeout_sec=SECONDS)
    return Agent(config.model_copy(update={"mcp_servers": [server]}), mode)


async def test_calls_of_a_server_that_says_that_it_only_reads_run_at_once(model_server, config):
    agent = await with_server(config, 8)
    model_server.enqueue(calls=[tool_call("test_meet", n=n) for n in range(8)])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert answers(model_server) == [json.dumps({"n": n}) for n in range(8)]
    await agent.aclose()


async def test_edits_of_one_file_keep_the_models_order(model_server, trusted, workspace):
    model_server.enqueue(calls=[edit("a.py", f"x = {n}", f"x = {n + 1}") for n in range(1, 6)])
    model_server.enqueue("Done.")
    record = (await run_turn(trusted))[-1].record
    assert [call.status for call in record.calls] == ["ok"] * 5
    assert (workspace / "a.py").read_text().startswith("x = 6\n")


class Appends(BaseTool[_Args, _Result, BaseToolConfig, BaseToolState]):
    """Adds its number to what is at `link` or `a.py`, not at once: two at a time lose what one of them adds."""

    description: ClassVar[str] = "Adds a number"

    def accesses(self, args: _Args) -> Accesses:
        return Accesses(writes=("link" if args.n % 2 else "a.py",))

    async def run(self, args: _Args) -> _Result:
        path = self.config.effective_workdir / ("link" if args.n % 2 else "a.py")
        text = path.read_text()
        for _ in range(20):
            await asyncio.sleep(0)
        path.write_text(f"{text}{args.n}\n")
        return _Result(n=args.n)


async def test_calls_whose_paths_become_one_in_the_same_reply_keep_the_models_order(model_server, trusted, workspace):
    trusted.tool_manager.add(Appends)
    model_server.enqueue(
        calls=[
            tool_call("bash", command="ln -s a.py link"),
            *[tool_call("appends", n=n) for n in (1, 2, 3, 4)],
            tool_call("read_file", path="a.py"),
        ]
    )
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n1\n2\n3\n4\n"
    assert [line.strip() for line in answers(model_server)[-1].split("\n")[2:]] == ["3\t1", "4\t2", "5\t3", "6\t4"]
    await trusted.undo()
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
    assert not (workspace / "link").is_symlink()


@pytest.mark.parametrize("path", ["a.py", "./a.py", "link.py"])
async def test_a_read_beside_a_write_of_the_same_file_sees_what_its_place_says(model_server, trusted, workspace, path):
    (workspace / "link.py").symlink_to("a.py")
    (workspace / "b.py").write_text("before\n")
    calls = [
        edit("a.py", "x = 1", "x = 3"),
        tool_call("read_file", path=path),
        tool_call("read_file", path="b.py"),
        tool_call("write_file", path="b.py", content="after\n", overwrite=True),
    ]
    model_server.enqueue(calls=calls)
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert "x = 3" in answers(model_server)[1]
    assert "before" in answers(model_server)[2]


async def test_what_follows_a_command_that_may_change_anything_waits_for_it(model_server, trusted, workspace):
    (workspace / "out").write_text("old\n")
    model_server.enqueue(calls=[bash("sleep 0.3; echo new > out"), bash("cat out")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert answers(model_server)[1] == "new"


async def test_a_command_that_may_change_anything_waits_for_what_comes_before_it(
    model_server, trusted, workspace, waits
):
    model_server.enqueue(calls=[tool_call("waits", n=1), tool_call("waits", n=2), bash("touch new")])
    model_server.enqueue("Done.")
    turn = asyncio.create_task(run_turn(trusted))
    async with asyncio.timeout(SECONDS):
        assert {await waits.began.get(), await waits.began.get()} == {1, 2}
        await asyncio.to_thread(subprocess.run, ["bash", "-c", "true"], check=True)  # as long as touch would take
    assert not (workspace / "new").exists()
    waits.may_end.set()
    await turn
    assert (workspace / "new").exists()


async def test_the_same_call_twice_in_a_reply_runs_once_and_is_answered_twice(model_server, trusted, workspace):
    model_server.enqueue(calls=[bash("echo x >> log; echo said"), bash("echo x >> log; echo said")])
    model_server.enqueue("Done.")
    record = (await run_turn(trusted))[-1].record
    assert (workspace / "log").read_text() == "x\n"
    assert answers(model_server) == ["said", "said"]
    assert record.calls[1].decision.by == "identical"


async def test_the_same_call_runs_again_when_one_that_conflicts_lies_between(model_server, trusted):
    look = tool_call("read_file", path="a.py")
    model_server.enqueue(calls=[look, edit("a.py", "x = 1", "x = 3"), look])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    first, _, last = answers(model_server)
    assert ("x = 1" in first, "x = 3" in last) == (True, True)


async def test_results_come_as_they_finish_and_reach_the_model_in_call_order(model_server, agent, waits):
    model_server.enqueue(calls=[tool_call("waits", n=7), bash("echo quick")])
    model_server.enqueue("Done.")
    order = []
    async with asyncio.timeout(SECONDS), aclosing(agent.act("go")) as events:
        async for event in events:
            if isinstance(event, ToolResultEvent):
                order.append(event.call.output)
                waits.may_end.set()
    assert order == ["quick", "n: 7"]
    assert answers(model_server) == ["n: 7", "quick"]


async def asked(agent: Agent, *given: ApprovalDecision) -> list[ApprovalRequest]:
    questions: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        questions.append(request)
        return given[len(questions) - 1]

    agent.set_ask(ask)
    return questions


async def test_a_refusal_without_a_word_stops_what_has_not_begun(model_server, agent, workspace):
    (workspace / "b.py").write_text("z = 1\n")
    questions = await asked(agent, ApprovalDecision(False))
    calls = [tool_call("read_file", path="b.py"), edit("a.py", "x = 1", "x = 3"), edit("b.py", "z = 1", "z = 3")]
    model_server.enqueue(calls=[*calls, bash("touch new")])
    record = (await run_turn(agent))[-1].record
    assert [call.status for call in record.calls] == ["ok", "refused", "refused", "refused"]
    assert (record.outcome, len(questions), len(model_server.requests)) == ("stopped", 1, 1)
    assert (workspace / "b.py").read_text() == "z = 1\n"
    assert not (workspace / "new").exists()


async def test_a_grant_for_the_session_on_the_first_holds_for_the_others_of_the_reply(model_server, config):
    agent = await with_server(config, 3, AgentMode.DEFAULT)
    await asked(agent, ApprovalDecision(True, scope="session"))
    model_server.enqueue(calls=[tool_call("test_meet", n=n) for n in range(3)])
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    assert sum(isinstance(event, ApprovalRequestEvent) for event in events) == 1
    assert [call.status for call in events[-1].record.calls] == ["ok"] * 3
    await agent.aclose()


async def test_an_interrupt_answers_every_call(model_server, trusted, waits):
    calls = [tool_call("waits", n=1), tool_call("waits", n=2), bash("echo quick"), bash("touch new")]
    model_server.enqueue(calls=calls)
    quick = asyncio.Event()

    async def turn() -> None:
        async with aclosing(trusted.act("go")) as events:
            async for event in events:
                if isinstance(event, ToolResultEvent):
                    quick.set()

    running = asyncio.create_task(turn())
    async with asyncio.timeout(SECONDS):
        await waits.began.get()
        await waits.began.get()
        await quick.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    record = trusted.turns[-1]
    assert [call.status for call in record.calls] == ["interrupted", "interrupted", "ok", "interrupted"]
    model_server.enqueue("Still valid.")
    await run_turn(trusted)  # the server checks that the history is


class Raises(_Reads):
    async def run(self, args: _Args) -> _Result:
        raise RuntimeError("it broke")


class Exits(_Reads):
    async def run(self, args: _Args) -> _Result:
        sys.exit(3)


async def test_a_tool_that_raises_or_exits_fails_alone(model_server, agent):
    for tool in (Raises, Exits):
        agent.tool_manager.add(tool)
    calls = [tool_call("raises"), tool_call("read_file", path="a.py"), tool_call("exits"), bash("echo still here")]
    model_server.enqueue(calls=calls)
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert [call.status for call in record.calls] == ["error", "ok", "error", "ok"]
    assert "it broke" in answers(model_server)[0]
    assert "SystemExit" in answers(model_server)[2]


async def test_a_tool_that_hangs_holds_up_no_other_and_can_be_interrupted(model_server, agent, waits):
    model_server.enqueue(calls=[tool_call("waits"), tool_call("read_file", path="a.py")])
    async with aclosing(agent.act("go")) as events:
        async for event in events:
            if isinstance(event, ToolResultEvent):
                break
    assert [call.status for call in agent.turns[-1].calls] == ["interrupted", "ok"]
    model_server.enqueue("Still valid.")
    await run_turn(agent)


async def test_fifty_calls_of_one_reply_are_all_answered_in_order(model_server, agent, workspace):
    for n in range(50):
        (workspace / f"n{n}.txt").write_text(f"number {n}\n")
    model_server.enqueue(calls=[tool_call("read_file", path=f"n{n}.txt") for n in range(50)])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert [answer.split("\t")[1] for answer in answers(model_server)] == [f"number {n}" for n in range(50)]


async def test_the_same_call_twice_counts_once_live_and_after_a_resume(trusted, model_server, config):
    model_server.enqueue(calls=[bash("echo x >> log"), bash("echo x >> log"), bash("false"), bash("false")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    await trusted.aclose()
    assert_counted_alike(trusted, config, agreed=2, rejected=0)


async def test_the_same_call_refused_twice_counts_once_live_and_after_a_resume(agent, model_server, config):
    async def refuse(_: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=False, message="not now")

    agent.set_ask(refuse)
    model_server.enqueue(calls=[bash("touch a"), bash("touch a"), bash("touch b")])
    model_server.enqueue(calls=[bash("touch a")])
    model_server.enqueue("Done.")
    await run_turn(agent)
    await agent.aclose()
    assert_counted_alike(agent, config, agreed=0, rejected=3)


def assert_counted_alike(agent: Agent, config, *, agreed: int, rejected: int) -> None:
    again = Agent.resume(config, agent.log.session_id).stats
    for stats in (agent.stats, again):
        assert (stats.tool_calls_agreed, stats.tool_calls_rejected) == (agreed, rejected)
    assert again.tool_calls_succeeded == agent.stats.tool_calls_succeeded
    assert again.tool_calls_failed == agent.stats.tool_calls_failed
