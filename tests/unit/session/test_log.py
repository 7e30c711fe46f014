"""What is in the log when the process dies, at whatever line."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import SessionLoggingConfig
from kin_nb.core.context.history import History
from kin_nb.core.records import TurnRecord
from kin_nb.core.session.errors import LogRecordError
from kin_nb.core.session.log import LOST, SessionLog, read_lines, session_log, sessions_root
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.session.state import SessionState
from tests.model_server import broken_rules, tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.session.conftest import write_turns


@pytest.fixture
async def logged(model_server, trusted) -> Path:
    """The log of two turns with tools, files and output."""
    model_server.enqueue("Looking.", calls=[tool_call("read_file", path="a.py"), tool_call("bash", command="exit 3")])
    model_server.enqueue(calls=[tool_call("write_file", path="new.py", content="1\n")])
    model_server.enqueue("Done.")
    model_server.enqueue("And again.")
    await run_turn(trusted, "first")
    await run_turn(trusted, "second")
    return trusted.log.path


async def test_the_log_holds_what_the_agent_holds(logged, trusted):
    state = SessionState.of(read_lines(logged))
    header, turns = state.header, state.records
    assert turns == trusted.turns
    assert header["session"] == trusted.session_id


async def test_a_log_cut_at_any_byte_gives_a_valid_history(logged, trusted, tmp_path):
    data = logged.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    cut = tmp_path / "cut.jsonl"
    for end in {*ends, *(end - 7 for end in ends)}:
        cut.write_bytes(data[:end])
        turns = SessionState.of(read_lines(cut)).records
        history = History("system", str)
        history.extend_from(turns, str)
        request = {"messages": [_wire(message) for message in history.messages]}
        assert broken_rules(request) == []
        assert all(turn.outcome != "running" for turn in turns)
        assert all(call.status != "pending" for turn in turns for call in turn.calls)


def _wire(message) -> dict:
    body = {"role": message.role.value, "content": message.content or ""}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in message.tool_calls
        ]
    if message.tool_call_id:
        body |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return body


async def test_a_completed_result_is_in_the_log_before_the_next_thing_happens(model_server, trusted, workspace):
    model_server.enqueue(
        calls=[tool_call("write_file", path="one", content="1"), tool_call("bash", command="kill -9 0")]
    )
    # what `kill -9 0` does to its own group happens after the first result was written
    model_server.enqueue("Done.")
    seen = []
    async for event in trusted.act("go"):
        if type(event).__name__ == "ToolResultEvent":
            turns = SessionState.of(read_lines(trusted.log.path)).records
            seen.append([call.status for call in turns[-1].calls])
    assert seen[0][0] == "ok"


async def test_the_same_messages_come_back_from_the_records(logged, trusted, workspace):
    turns = SessionState.of(read_lines(logged)).records
    back = History(trusted.messages[0].content, trusted.redact)
    back.extend_from(turns, lambda t: t.replace("{workspace}", str(workspace)))
    assert [(m.role, m.content, m.tool_call_id) for m in back.messages[1:]] == [
        (m.role, m.content, m.tool_call_id) for m in trusted.messages[1:]
    ]


async def test_the_log_is_the_owners_alone(logged):
    assert stat.S_IMODE(logged.stat().st_mode) == 0o600
    assert stat.S_IMODE(logged.parent.stat().st_mode) == 0o700


def test_a_log_that_cannot_be_written_is_reported_once_and_nothing_breaks(tmp_path):
    (tmp_path / "file").write_text("")
    said: list[str] = []
    log = SessionLog("s", folder=tmp_path / "file" / "no", warn=said.append)
    log.append("turn", record={})
    log.append("end", turn={})
    log.sync()
    log.close()
    assert len(said) == 1
    assert "continues in memory" in said[0]


def test_a_disk_that_takes_a_part_of_a_line_loses_only_that_line(tmp_path):
    """A limit on the size of files is as good as a full disk: the kernel writes what fits, then refuses."""
    script = f"""
import resource, signal
from pathlib import Path
from kin_nb.core.session.log import SessionLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
log = SessionLog("s", folder=Path({str(tmp_path)!r}) / "s", warn=print)
log.append("session", session="s")
log.append("warning", message="x" * 400)
print("said at once")
log.append("end", turn={{}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    said, advice, *rest = done.stdout.splitlines()
    assert "continues in memory" in said
    assert (advice, rest) == (LOST, ["said at once"])
    path = tmp_path / "s" / "log.jsonl"
    assert path.stat().st_size == 300
    assert [line["type"] for line in read_lines(path)] == ["session"]
    log = SessionLog.lock("s", tmp_path / "s")
    log.append("end", turn={})
    log.close()
    assert [line["type"] for line in read_lines(path)] == ["session", "end"], "a torn line spoils no other"


async def test_a_line_costs_what_is_in_it_and_not_what_came_before(model_server, trusted):
    for _ in range(6):
        model_server.enqueue("x" * 100)
        await run_turn(trusted, "same prompt")
    lines = trusted.log.path.read_bytes().splitlines()
    replies = [len(line) for line in lines if b'"type":"reply"' in line]
    assert max(replies) - min(replies) < 20
    assert sum(len(line) for line in lines) < 6 * 2500


async def test_turns_continued_from_a_recording_are_in_the_log_too(model_server, trusted, config):
    model_server.enqueue("First.")
    await run_turn(trusted, "one")
    agent = Agent(config)
    agent.continue_from(trusted.turns)
    model_server.enqueue("Second.")
    await run_turn(agent, "two")
    turns = SessionState.of(read_lines(agent.log.path)).records
    assert [turn.prompt for turn in turns] == ["one", "two"]
    assert turns == agent.turns
    assert [m["content"] for m in model_server.requests[-1]["messages"][1:]] == ["one", "First.", "two"]
    await agent.aclose()


def test_types_of_a_later_version_are_passed_over():
    lines = [{"type": "session", "session": "s"}, {"type": "hologram", "depth": 3}, {"type": "resumed", "time": 1}, {}]
    turn = {"type": "turn", "record": {"turn": 1, "prompt": "x"}}
    state = SessionState.of([*lines, turn, {"type": "hologram"}, {"type": "end", "turn": {"outcome": "done"}}])
    header, turns = state.header, state.records
    assert header["session"] == "s"
    assert [(t.prompt, t.outcome) for t in turns] == [("x", "done")]


def test_a_record_of_ours_that_makes_no_sense_is_named(subtests):
    for line in [
        {"type": "turn"},
        {"type": "turn", "record": {"turn": 1}},
        {"type": "reply", "step": []},
        {"type": "result", "call": {"status": "ok"}},
        {"type": "result", "call": {"id": "c1", "status": "splendid"}},
        {"type": "end", "turn": {"outcome": "splendid"}},
        {"type": "warning"},
        {"type": "continued", "turns": 3},
    ]:
        with subtests.test(line=line):
            turn = {"type": "turn", "record": {"turn": 1, "prompt": "x"}}
            reply = {"type": "reply", "step": {"calls": [{"id": "c1", "name": "bash", "arguments": "{}"}]}}
            with pytest.raises(LogRecordError, match=f"record 4, of type {line['type']}"):
                SessionState.of([{"type": "session"}, turn, reply, line])


def test_what_belongs_to_a_lost_prompt_ends_in_no_other_turn(write_session):
    log = write_session("s", "first", "second")
    lines = log.path.read_bytes().splitlines(keepends=True)
    second = next(i for i, line in enumerate(lines) if b'"second"' in line)
    log.path.write_bytes(b"".join([*lines[:second], lines[second][:40] + b"\n", *lines[second + 1 :]]))
    turns = SessionState.of(read_lines(log.path)).records
    assert [(turn.prompt, len(turn.steps)) for turn in turns] == [("first", 1)]


def test_a_line_nested_without_end_is_skipped(write_session):
    log = write_session("s", "first")
    with log.path.open("ab") as file:
        file.write(b"[" * 200_000 + b"\n")
    assert len(SessionState.of(read_lines(log.path)).records) == 1


def test_a_warning_stands_in_its_turn(root):
    log = SessionLog("s", folder=root / "s")
    log.append("session", session="s")
    recorder = TurnRecorder(log, str, TurnRecord(turn=1, prompt="x"))
    recorder.warn("tools/x.py cannot be used")
    recorder.end("done")
    log.close()
    assert SessionState.of(read_lines(log.path)).records == [recorder.record]


def test_sessions_that_are_not_logged_leave_nothing(root):
    log = session_log("s", SessionLoggingConfig(enabled=False, save_dir=str(root)))
    log.append("session", session="s", start_time="2024-01-26T10:30:00+01:00")
    write_turns(log, "first")
    log.sync()
    log.close()
    assert not root.exists()
    assert (log.is_written, log.has_header) == (False, True)


def test_save_dir_moves_the_sessions(root, monkeypatch):
    log = session_log("s", SessionLoggingConfig(save_dir=str(root)))
    write_turns(log, "first")
    log.close()
    assert (root / "s" / "log.jsonl").is_file()
    monkeypatch.setenv("HOME", str(root))
    assert sessions_root("~/kept") == root / "kept"
