"""A disk that fills up in a session: a warning at once, no promise of undo that is not kept, and questions in every mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, SessionLoggingConfig
from kin_nb.core.events import BaseEvent, ToolResultEvent, TurnEndEvent, WarningEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedCall
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.journal import NOTE
from kin_nb.core.session.log import INCOMPLETE_NAME, read_lines
from tests.full_disk import Disk, NoSpace, SmallDisk, mounted, unmount
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

BIG = "keep me\n" * 30_000
HISTORY = "checkpoints cannot be used ("
LOG = "the session log cannot be written (No space left on device)"
REMOVE = tool_call("bash", command="rm big.txt")
WRITE = tool_call("write_file", path="a.py", content="x = 2\n", overwrite=True)


@dataclass
class Disks:
    sessions: Disk
    history: Disk


@pytest.fixture
def disks(tmp_path: Path, monkeypatch) -> Iterator[Disks]:
    """One for the logs, one for `~/.kin-code`, with room so far: file systems, or stand-ins where none may be mounted."""
    sessions, home = tmp_path / "sessions", tmp_path / "home"
    monkeypatch.setenv("KIN_HOME", str(home))
    if not mounted(sessions):
        with pytest.MonkeyPatch.context() as one, pytest.MonkeyPatch.context() as other:
            yield Disks(NoSpace(sessions, one), NoSpace(home, other))
        return
    try:
        assert mounted(home)
        try:
            yield Disks(SmallDisk(sessions), SmallDisk(home))
        finally:
            unmount(home)
    finally:
        unmount(sessions)


@pytest.fixture
def config(config: KinConfig, disks: Disks, workspace: Path) -> KinConfig:
    (workspace / "big.txt").write_text(BIG)
    return config.model_copy(update={"session_logging": SessionLoggingConfig(save_dir=str(disks.sessions.path))})


@pytest.fixture
async def start(config: KinConfig):
    """Begin a session, or resume it; the agents are closed afterwards."""
    agents: list[Agent] = []

    def start(mode: AgentMode = AgentMode.AUTO_APPROVE, make=Agent) -> Agent:
        agents.append(make(config, mode=mode))
        return agents[-1]

    yield start
    for agent in agents:
        await agent.aclose()


def answers(agent: Agent, *, approved: bool = True) -> list[ApprovalRequest]:
    """What `agent` asks from now on."""
    asked: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(approved, None if approved else "Not now.")

    agent.set_ask(ask)
    return asked


async def turn(agent: Agent, server: ModelServer, *calls: dict, text: str = "Done.") -> list[BaseEvent]:
    for call in calls:
        server.enqueue(calls=[call])
    server.enqueue(text)
    return await run_turn(agent)


def told(server: ModelServer) -> list[str]:
    return [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]


def the_call(agent: Agent) -> RecordedCall:
    (call,) = agent.turns[-1].calls
    return call


def assert_warned_at_once(events: list[BaseEvent], text: str) -> None:
    """Before the result of the call, in the record too, and once."""
    warnings = [n for n, event in enumerate(events) if isinstance(event, WarningEvent) and text in event.message]
    result = next(n for n, event in enumerate(events) if isinstance(event, ToolResultEvent))
    assert len(warnings) == 1
    assert warnings[0] <= result + 1
    assert isinstance(events[-1], TurnEndEvent)
    assert sum(text in warning for warning in events[-1].record.warnings) == 1


# The file history.


@pytest.mark.parametrize("leave", [0, 8_192, 40_960, 90_112])
async def test_where_no_one_can_be_asked_a_command_without_a_snapshot_does_not_run(
    disks, start, model_server, workspace, leave
):
    agent = start()
    disks.history.fill(leave)
    events = await turn(agent, model_server, REMOVE)
    assert_warned_at_once(events, HISTORY)
    call = the_call(agent)
    assert (call.status, call.decision.by) == ("refused", "headless")
    assert "undo cannot restore what this changes" in call.output
    assert "Free space on that disk" in call.output
    assert "auto-approve" not in call.output
    assert (workspace / "big.txt").read_text() == BIG
    assert agent.journal.storage.failed


@pytest.mark.parametrize("mode", [AgentMode.AUTO_APPROVE, AgentMode.ACCEPT_EDITS, AgentMode.DEFAULT])
async def test_a_person_is_asked_with_the_reason_and_undo_names_what_it_cannot_restore(
    disks, start, model_server, workspace, mode
):
    agent = start(mode)
    asked = answers(agent)
    disks.history.fill()
    events = await turn(agent, model_server, REMOVE)
    assert_warned_at_once(events, HISTORY)
    assert HISTORY in asked[-1].reason
    assert (asked[-1].without_undo, asked[-1].scopes) == (True, ())
    assert len(asked) == (2 if mode is not AgentMode.AUTO_APPROVE else 1)
    call = the_call(agent)
    assert (call.status, call.decision.by) == ("ok", "person")
    assert call.output.startswith(NOTE)
    assert call.output == f"{call.no_undo}\n{call.result}"
    assert told(model_server)[0].startswith(NOTE)
    assert call.uncovered.startswith("not covered: no snapshot was kept")
    disks.history.free()
    undone = await agent.undo()
    assert not (workspace / "big.txt").exists()
    assert [kept.path for kept in undone.kept] == ["big.txt"]
    assert HISTORY in undone.uncovered[0]


async def test_a_refusal_runs_nothing(disks, start, model_server, workspace):
    agent = start()
    answers(agent, approved=False)
    disks.history.fill()
    await turn(agent, model_server, REMOVE)
    assert the_call(agent).status == "refused"
    assert (workspace / "big.txt").exists()


async def test_what_only_reads_and_what_makes_a_new_file_runs_unasked(disks, start, model_server, workspace):
    agent = start()
    asked = answers(agent)
    disks.history.fill()
    make = tool_call("write_file", path="new.py", content="x = 2\n")
    await turn(agent, model_server, tool_call("bash", command="cat a.py"), make)
    look, write = agent.turns[-1].calls
    assert (asked, look.output) == ([], "x = 1\ny = 2")
    assert write.output.startswith(NOTE)
    assert (workspace / "new.py").exists()


@pytest.mark.parametrize("mode", [AgentMode.AUTO_APPROVE, AgentMode.ACCEPT_EDITS])
async def test_replacing_the_content_of_a_file_asks_with_the_reason(disks, start, model_server, workspace, mode):
    agent = start(mode)
    asked = answers(agent)
    disks.history.fill()
    await turn(agent, model_server, WRITE)
    assert [(request.without_undo, request.scopes) for request in asked] == [(True, ())]
    assert HISTORY in asked[0].reason
    write = the_call(agent)
    assert write.output.startswith(NOTE)
    assert "not covered" in write.uncovered
    disks.history.free()
    undone = await agent.undo()
    assert HISTORY in undone.uncovered[0]
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n", "the record's patch has it"


@pytest.mark.parametrize(
    "change",
    [
        tool_call("write_file", path="big.txt", content="gone", overwrite=True),
        tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2"),
    ],
)
async def test_where_no_one_can_be_asked_no_content_of_a_file_is_replaced(
    disks, start, model_server, workspace, change
):
    agent = start()
    disks.history.fill()
    await turn(agent, model_server, change)
    call = the_call(agent)
    assert (call.status, call.decision.by) == ("refused", "headless")
    assert "undo cannot restore what this changes" in call.output
    assert (workspace / "big.txt").read_text() == BIG
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"


async def test_once_there_is_room_again_nothing_is_asked_and_undo_works(disks, start, model_server, workspace):
    agent = start()
    asked = answers(agent, approved=False)
    disks.history.fill()
    await turn(agent, model_server, REMOVE)
    assert len(asked) == 1
    disks.history.free()
    events = await turn(agent, model_server, REMOVE)
    assert len(asked) == 1
    assert not [event for event in events if isinstance(event, WarningEvent)]
    assert (the_call(agent).uncovered, the_call(agent).output) == ("", "[no output]")
    assert not (workspace / "big.txt").exists()
    assert (await agent.undo()).kept == ()
    assert (workspace / "big.txt").read_text() == BIG


async def test_a_snapshot_that_fits_no_longer_is_a_question_in_the_middle_of_a_turn(
    disks, start, model_server, workspace
):
    agent = start()
    asked = answers(agent)
    model_server.enqueue(calls=[tool_call("bash", command="touch new")])
    model_server.enqueue(calls=[tool_call("bash", command="sed -i s/keep/drop/ big.txt")])
    model_server.enqueue(calls=[REMOVE])
    model_server.enqueue("Done.")
    results = 0
    async for event in agent.act("go"):
        if isinstance(event, ToolResultEvent):
            results += 1
            if results == 1:
                disks.history.fill()
    first, *others = agent.turns[-1].calls
    assert (first.uncovered, first.output) == ("", "[no output]")
    assert asked
    assert others[-1].output.startswith(NOTE)


# The log.


async def test_while_the_log_is_lost_undo_works_and_the_result_says_until_when(disks, start, model_server, workspace):
    agent = start()
    asked = answers(agent)
    await turn(agent, model_server)
    disks.sessions.fill()
    events = await turn(agent, model_server, REMOVE, text="word " * 2_000)
    events += await turn(agent, model_server, tool_call("bash", command="rm a.py"))
    assert sum(isinstance(event, WarningEvent) for event in events) == 1
    assert "only until this session is closed" in asked[-1].reason
    call = the_call(agent)
    assert call.output.startswith(f"{NOTE} once this session is closed: {LOG}]")
    assert told(model_server)[-1] == call.output
    undone = await agent.undo(2)
    assert (undone.kept, undone.uncovered) == ((), ())
    assert (workspace / "big.txt").read_text() == BIG
    assert (workspace / "a.py").exists()


async def test_a_resume_says_what_the_log_lacks_and_undo_says_it_again(disks, start, model_server, workspace):
    agent = start()
    answers(agent)
    await turn(agent, model_server)
    disks.sessions.fill()
    await turn(agent, model_server, text="word " * 2_000)
    await turn(agent, model_server, REMOVE)
    await agent.aclose()
    disks.sessions.free()
    for again in (False, True):
        agent = start(make=Agent.resume)
        if not again:
            assert agent.turns[-1].turn < 3
            assert "is incomplete, because it could not be written" in agent.journal.warnings[0]
            await turn(agent, model_server)
            assert not (agent.log.folder / INCOMPLETE_NAME).exists()
            assert any(line.get("incomplete") for line in read_lines(agent.log.path))
            await agent.aclose()
    undone = await agent.undo(2)
    assert f"changes in or after turn {undone.turns[0]}" in undone.uncovered[0]
    assert not (workspace / "big.txt").exists()


async def test_an_undo_that_is_not_recorded_says_so(disks, start, model_server, workspace):
    agent = start()
    await turn(agent, model_server, REMOVE)
    await turn(agent, model_server, text="word " * 800)
    disks.sessions.fill()
    for number in range(40):  # each undo and redo is a line, until the last block is full
        undone = await (agent.redo() if number % 2 else agent.undo(2))
        if undone.warnings:
            break
    assert LOG[1:] in undone.warnings[0]


async def test_a_whole_output_that_is_not_kept_is_a_warning_at_once(disks, start, model_server):
    agent = start()
    await turn(agent, model_server)
    disks.sessions.fill(leave=65_536)
    events = await turn(agent, model_server, tool_call("bash", command="cat big.txt"))
    assert any("full output of a tool call was not saved" in e.message for e in events if isinstance(e, WarningEvent))
    assert agent.journal.storage.failed
