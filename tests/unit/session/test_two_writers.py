"""Two agents that take turns in one session's log: whoever missed something says so before anything happens."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from kin_nb.cli.terminal_host import TerminalHost
from kin_nb.core.agent import Agent
from kin_nb.core.commands import CommandError
from kin_nb.core.commands.sessions import resume
from kin_nb.core.events import ToolResultEvent
from kin_nb.core.file_history import FileHistory, workspace_store
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.errors import SessionContinuedElsewhereError, SessionInUseError
from kin_nb.core.session.log import LOG_NAME, LOST, SessionLog, read_lines
from kin_nb.core.session.state import SessionState, Totals
from kin_nb.core.session.store import SessionStore
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

TALK = """
import asyncio, sys
from pathlib import Path
from tests.unit.core.conftest import run_turn
from tests.unit.session.killed import config
from kin_nb.core.agent import Agent
from kin_nb.core.session.errors import SessionError

async def main(how, url, workspace):
    how = {'begin': Agent, 'resume': Agent.resume}[how]
    agent = how(config(url, Path(workspace)))
    for prompt in sys.stdin:
        try:
            await run_turn(agent, prompt.strip())
            said = agent.session_id
        except SessionError as error:
            said = type(error).__name__
        await agent.aclose()
        print(said, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def prompts(log: Path) -> list[tuple[int, str]]:
    return [(turn.turn, turn.prompt) for turn in SessionState.of(read_lines(log)).records]


@pytest.fixture
async def left_behind(model_server, trusted):
    """An agent whose session went on in another one, which is closed."""
    model_server.enqueue(None, calls=[tool_call("write_file", path="b.py", content="1\n")])
    model_server.enqueue("One.")
    await run_turn(trusted, "one")
    await trusted.aclose()
    other = Agent.resume(trusted.base_config)
    model_server.enqueue("Two.")
    await run_turn(other, "two")
    await other.aclose()
    return trusted


def test_of_two_processes_the_one_that_missed_a_turn_refuses_and_nothing_is_lost(model_server, workspace):
    for answer in ("One.", "Two.", "Three."):
        model_server.enqueue(answer)

    def agent(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", TALK, how, model_server.url, workspace]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(agent: subprocess.Popen[str], prompt: str) -> str:
        agent.stdin.write(f"{prompt}\n")
        agent.stdin.flush()
        return agent.stdout.readline().strip()

    with agent("begin") as first:
        session = say(first, "one")
        with agent("resume") as second:
            assert say(second, "two") == session
            assert [say(first, "three"), say(first, "again")] == ["SessionContinuedElsewhereError"] * 2
            assert say(second, "three") == session
            assert second.communicate()[0] == ""
        assert first.communicate()[0] == ""
    assert prompts(SessionStore().find(session).folder / LOG_NAME) == [(1, "one"), (2, "two"), (3, "three")]
    said = [message["content"] for message in model_server.requests[-1]["messages"][1:]]
    assert said == ["one", "One.", "two", "Two.", "three"]


@pytest.mark.parametrize("what", ["act", "undo", "revert_to", "clear_history", "compact"])
async def test_who_missed_a_turn_changes_neither_the_log_nor_files_nor_its_own_conversation(
    model_server, left_behind, workspace, what
):
    agent = left_behind
    log, messages, session = agent.log.path.read_bytes(), agent.messages, agent.session_id
    asked = model_server.requests[:]
    does = {"act": lambda: run_turn(agent, "three"), "revert_to": lambda: agent.revert_to(0)}
    with pytest.raises(SessionContinuedElsewhereError, match=f"/resume {agent.session_id[:8]}") as error:
        await does.get(what, getattr(agent, what))()
    assert error.value.session_id == agent.session_id
    assert agent.log.path.read_bytes() == log
    assert (agent.messages, agent.session_id, model_server.requests, agent.busy) == (messages, session, asked, False)
    assert (workspace / "b.py").exists()


async def test_who_missed_a_turn_holds_no_lock_and_resumes_with_all_of_it(model_server, left_behind):
    with pytest.raises(SessionContinuedElsewhereError):
        await run_turn(left_behind, "three")
    again = Agent.resume(left_behind.base_config)
    assert [turn.prompt for turn in again.turns] == ["one", "two"]
    await again.aclose()


def test_slash_resume_takes_up_the_session_that_it_is_in_once_that_continued_elsewhere(model_server, config):
    with asyncio.Runner() as runner:
        host = TerminalHost(config, AgentMode.AUTO_APPROVE, runner)
        host.agent, name = Agent(config), "latest"
        for agent, prompt in ((host.agent, "one"), (None, "two")):
            model_server.enqueue("Fine.")
            agent = agent or Agent.resume(config, name)  # noqa: PLW2901
            runner.run(run_turn(agent, prompt))
            runner.run(agent.aclose())
            name = agent.session_id
        with pytest.raises(CommandError, match="is the current one"):
            resume(host, [name])
        with pytest.raises(SessionContinuedElsewhereError):
            runner.run(run_turn(host.agent, "three"))
        assert resume(host, [name]).title.endswith("2 turns")
        model_server.enqueue("Fine.")
        runner.run(run_turn(host.agent, "three"))
        assert prompts(host.agent.log.path) == [(1, "one"), (2, "two"), (3, "three")]
        runner.run(host.agent.aclose())


async def test_what_was_undone_can_still_be_redone_after_a_refusal_elsewhere(model_server, trusted, workspace):
    model_server.enqueue(None, calls=[tool_call("write_file", path="b.py", content="1\n")])
    model_server.enqueue("One.")
    await run_turn(trusted, "one")
    await trusted.undo()
    head = trusted.conversation.lineage.head
    await trusted.aclose()
    other = Agent.resume(trusted.base_config)
    with pytest.raises(SessionInUseError):
        await run_turn(trusted, "two")
    await other.aclose()
    assert trusted.conversation.lineage.head == head
    await trusted.redo()
    assert (workspace / "b.py").exists()


async def test_without_locks_a_turn_that_another_agent_took_is_noticed_all_the_same(model_server, trusted, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    model_server.enqueue("One.")
    await run_turn(trusted, "one")
    other = Agent.resume(trusted.base_config)
    model_server.enqueue("Two.")
    await run_turn(other, "two")
    with pytest.raises(SessionContinuedElsewhereError):
        await run_turn(trusted, "three")
    model_server.enqueue("Three.")
    await run_turn(other, "three")
    await other.aclose()
    assert prompts(trusted.log.path) == [(1, "one"), (2, "two"), (3, "three")]


async def test_a_new_agent_does_not_begin_again_in_a_stored_session(model_server, left_behind):
    agent = Agent(left_behind.base_config, session_id=left_behind.session_id)
    with pytest.raises(SessionContinuedElsewhereError):
        await run_turn(agent, "one")
    assert prompts(agent.log.path) == [(1, "one"), (2, "two")]


async def test_an_agent_that_no_one_overtook_continues_after_it_was_closed(model_server, trusted):
    for prompt in ("one", "two", "three"):
        model_server.enqueue("Fine.")
        await run_turn(trusted, prompt)
        await trusted.aclose()
    assert prompts(trusted.log.path) == [(1, "one"), (2, "two"), (3, "three")]


def test_a_log_that_was_removed_meanwhile_is_not_begun_in_the_middle(write_session, root):
    write_session("aaaa-1", "first")
    said: list[str] = []
    log = SessionLog.lock("aaaa-1", root / "aaaa-1", said.append)
    log.resume_after({}, Totals())
    log.close()
    (root / "aaaa-1" / "log.jsonl").unlink()
    log.append("turn")
    assert not log.path.exists()
    assert said == [
        f"The session log cannot be written (No such file or directory); this session continues in memory only.\n{LOST}"
    ]


# What an agent lets go of.


@pytest.mark.parametrize("found_out", [True, False])
async def test_an_agent_whose_session_another_one_has_leaves_what_that_keeps_of_its_calls(
    model_server, trusted, workspace, found_out
):
    model_server.enqueue("One.")
    await run_turn(trusted, "one")
    await trusted.aclose()
    other = Agent.resume(trusted.base_config, mode=AgentMode.AUTO_APPROVE)
    model_server.enqueue(None, calls=[tool_call("write_file", path="b.py", content="1\n")])
    async with aclosing(other.act("two")) as events:
        async for event in events:
            if isinstance(event, ToolResultEvent):  # not yet forgotten: the next call, or the end, does it
                if found_out:
                    with pytest.raises(SessionInUseError):
                        await run_turn(trusted, "three")
                await trusted.aclose()
                assert kept_calls(workspace, other) == [event.tool_call_id]
                break
    await other.aclose()
    assert kept_calls(workspace, other) == []


def kept_calls(workspace: Path, agent: Agent) -> list[str]:
    history = FileHistory(workspace.resolve(), workspace_store(workspace.resolve()))
    try:
        return list(history.kept(agent.journal.root_id))
    finally:
        history.close()


_ENDS = """
import asyncio, atexit, sys
from pathlib import Path
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig

models = [ModelConfig(name="m", provider="p")]
config = KinConfig(workdir=Path.cwd(), active_model="m", models=models, providers=[ProviderConfig(name="p", api_base=sys.argv[1])])
agent = Agent(config)
loop = asyncio.new_event_loop()

async def ask():
    async for _ in agent.act("one"):
        pass

def close():
    loop.run_until_complete(agent.aclose())
    loop.close()
    print("closed:", agent.log._file is None)

atexit.register(close)
loop.run_until_complete(ask())
"""


def test_an_agent_that_is_closed_while_the_program_ends_closes_its_log(model_server, workspace):
    model_server.enqueue("One.")
    command = [sys.executable, "-c", _ENDS, model_server.url]
    done = subprocess.run(command, check=False, cwd=workspace, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("closed: True\n", "")


async def test_what_one_part_raises_when_it_is_closed_keeps_no_other_open(model_server, trusted, monkeypatch):
    async def broken() -> None:
        raise OSError("the pipe is gone")

    model_server.enqueue("One.")
    await run_turn(trusted, "one")
    with monkeypatch.context() as patch:
        patch.setattr(trusted.toolset, "aclose", broken)
        with pytest.raises(OSError, match="the pipe is gone"):
            await trusted.aclose()
    Agent.resume(trusted.base_config).log.close()
