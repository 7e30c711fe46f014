"""Two agents never write into one session, and a resumed log is one log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.session.errors import SessionInUseError, UnreadableSessionError
from kin_nb.core.session.log import SessionLog, read_lines
from kin_nb.core.session.state import SessionState
from kin_nb.core.session.store import SessionStore
from tests.unit.core.conftest import run_turn
from tests.unit.session.conftest import write_turns

HOLD = """
import sys
from pathlib import Path
from kin_nb.core.session.store import SessionStore
stored, log = SessionStore(Path(sys.argv[1])).resume(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def types(log: SessionLog) -> list[str]:
    return [line["type"] for line in read_lines(log.path)]


def test_a_session_that_another_process_has_open_cannot_be_resumed_until_that_is_gone(write_session, root):
    log = write_session("aaaa-1", "first")
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, root, "aaaa-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout.readline() == "held\n"
        before = log.path.read_bytes()
        with pytest.raises(SessionInUseError, match="aaaa-1 is open elsewhere") as error:
            SessionStore(root).resume("aaaa-1")
        assert error.value.session_id == "aaaa-1"
        assert "continue a copy" in str(error.value)
        assert SessionStore(root).find("aaaa-1").turns, "it can be read all the same"
        os.kill(other.pid, signal.SIGKILL)
    stored, resumed = SessionStore(root).resume("aaaa-1")
    resumed.close()
    assert [turn.prompt for turn in stored.turns] == ["first"]
    assert log.path.read_bytes() == before, "looking at a session is not a change"


def test_two_agents_of_one_process_are_kept_apart_too(write_session, root):
    write_session("aaaa-1", "first")
    _, log = SessionStore(root).resume("aaaa-1")
    with pytest.raises(SessionInUseError):
        SessionStore(root).resume("aaaa-1")
    with pytest.raises(SessionInUseError):
        SessionLog("aaaa-1", folder=root / "aaaa-1").append("session", session="aaaa-1")
    log.close()
    SessionStore(root).resume("aaaa-1")[1].close()


def test_a_session_that_cannot_be_read_is_not_left_locked(write_session, root):
    log = write_session("aaaa-1", "first")
    log.path.write_text('{"type": "turn"}\n')
    with pytest.raises(UnreadableSessionError):
        SessionStore(root).resume("aaaa-1")
    SessionLog.lock("aaaa-1", root / "aaaa-1").close()


def test_a_resumed_log_says_so_once_and_has_one_header(write_session, root):
    log = write_session("aaaa-1", "first", start_time="2024-01-26T10:30:00+01:00")
    stored, resumed = SessionStore(root).resume("aaaa-1")
    assert (resumed.has_header, resumed.start_time) == (True, "2024-01-26T10:30:00+01:00")
    write_turns(resumed, "second", "third", first=len(stored.turns) + 1)
    resumed.close()
    assert types(log) == ["session", *("turn", "reply", "end"), "resumed", *("turn", "reply", "end") * 2]
    turns = SessionState.of(read_lines(log.path)).records
    assert [(turn.turn, turn.prompt, turn.outcome) for turn in turns] == [
        (1, "first", "done"),
        (2, "second", "done"),
        (3, "third", "done"),
    ]


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_after_a_crash_in_the_middle_of_a_line_the_session_continues(write_session, root, cut):
    log = write_session("aaaa-1", "first", "second", ends=False)
    data = log.path.read_bytes()
    log.path.write_bytes(data[: len(data) - cut])
    stored, resumed = SessionStore(root).resume("aaaa-1")
    assert stored.turns[-1].outcome == "interrupted"
    write_turns(resumed, "third", first=3)
    resumed.close()
    turns = SessionState.of(read_lines(log.path)).records
    assert [(turn.prompt, turn.outcome) for turn in turns] == [
        ("first", "done"),
        ("second", "interrupted"),
        ("third", "done"),
    ]
    assert turns[:2] == list(stored.turns)


def test_a_log_that_may_only_be_read_is_resumed_in_memory(write_session, root):
    log = write_session("aaaa-1", "first")
    log.path.unlink()
    log.path.symlink_to("/proc/self/cmdline")  # opens for nobody's writing, root's neither
    said: list[str] = []
    closed = SessionLog.lock("aaaa-1", root / "aaaa-1", said.append)
    closed.append("resumed")
    assert (closed.is_written, len(said)) == (False, 1)
    assert "continues in memory" in said[0]


async def test_an_agent_continues_in_a_log_and_reads_back_as_one_conversation(model_server, config, trusted):
    model_server.enqueue("First.")
    await run_turn(trusted, "one")
    await trusted.aclose()
    stored, log = SessionStore().resume(trusted.session_id[:8])
    agent = Agent(config, session_id=stored.id, log=log)
    agent.history.extend_from(stored.turns, str)
    model_server.enqueue("Second.")
    await run_turn(agent, "two")
    await agent.aclose()
    assert [m["content"] for m in model_server.requests[-1]["messages"][1:]] == ["one", "First.", "two"]
    assert [turn.prompt for turn in SessionState.of(read_lines(log.path)).records] == ["one", "two"]
    assert SessionStore().list()[0].turns == 2
