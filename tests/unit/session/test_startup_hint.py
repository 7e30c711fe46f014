"""The line in which a fresh kernel offers the session before: what it says, and when there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.session.log import sessions_root
from kin_nb.notebook.startup_hint import RECENT, resume_hint


async def ask(agent: Agent, server, count: int = 1) -> None:
    for _ in range(count):
        server.enqueue("Here.")
        async for _ in agent.act("go"):
            pass


@pytest.fixture
async def session(config, model_server) -> Path:
    """The log of a session of two turns that no one has open, last written to at time 1,000,000."""
    agent = Agent(config)
    await ask(agent, model_server, 2)
    await agent.aclose()
    os.utime(agent.log.path, (1_000_000, 1_000_000))
    return agent.log.path


def offered(workspace: Path, seconds: float) -> str | None:
    return resume_hint(sessions_root(), workspace.resolve(), 1_000_000 + seconds)


def test_a_session_of_this_folder_is_offered(subtests, session, workspace):
    for seconds, ago in [
        (0, "a moment"),
        (60, "1 minute"),
        (3599, "59 minutes"),
        (3600, "1 hour"),
        (7300, "2 hours"),
        (-5, "a moment"),
    ]:
        with subtests.test(seconds=seconds, ago=ago):
            wanted = f"Last session here: {ago} ago, 2 turns. To continue it: %kin resume"
            assert offered(workspace, seconds) == wanted


def test_not_one_of_yesterday(session, workspace):
    assert offered(workspace, RECENT + 1) is None


def test_not_one_of_another_folder(session, workspace):
    assert offered(workspace.parent, 0) is None


def test_nothing_where_there_are_no_sessions(workspace):
    assert offered(workspace, 0) is None


async def test_not_while_someone_has_it_open(config, model_server, workspace):
    agent = Agent(config)
    await ask(agent, model_server)
    os.utime(agent.log.path, (1_000_000, 1_000_000))
    assert offered(workspace, 0) is None
    await agent.aclose()
    assert offered(workspace, 0) == "Last session here: a moment ago, 1 turn. To continue it: %kin resume"


def test_looking_leaves_no_lock(session, workspace, config):
    offered(workspace, 0)
    Agent.resume(config, session.parent.name).log.close()  # would raise SessionInUseError


def test_a_turn_that_was_cut_off_counts(session, workspace):
    lines = session.read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if line.startswith(b'{"type":"turn"'))
    session.write_bytes(b"".join(lines[: last + 1]))
    os.utime(session, (1_000_000, 1_000_000))
    assert offered(workspace, 0) == "Last session here: a moment ago, 2 turns. To continue it: %kin resume"


def test_what_is_no_log_is_passed_over(subtests, session, workspace):
    for number, content in enumerate(
        [
            b"",
            b"\xff\n",
            b"[]\n",
            b"{}\n",
            b'{"type":"session"}\n',
            b"[" * 100_000,
            b"header only",
            b'{"kin_nb":"encrypted"}\nx\n',
        ]
    ):
        with subtests.test(number=number):
            header = session.read_bytes().splitlines(keepends=True)[0]
            broken = session.parent.parent / "broken" / "log.jsonl"
            broken.parent.mkdir(exist_ok=True)
            broken.write_bytes(header if content == b"header only" else content)
            os.utime(broken, (1_000_001, 1_000_001))
            assert offered(workspace, 10) == "Last session here: a moment ago, 2 turns. To continue it: %kin resume"


@pytest.mark.parametrize("end", [b'{"type":"end"}', b'{"type":"end","totals":{"turns":"many"}}', b'{"type":"end", cut'])
def test_a_count_that_makes_no_sense_is_no_crash(session, workspace, end):
    with session.open("ab") as log:
        log.write(end)
    os.utime(session, (1_000_000, 1_000_000))
    assert offered(workspace, 0) == "Last session here: a moment ago. To continue it: %kin resume"


def test_a_long_log_is_read_at_its_ends_only(session, workspace):
    header, *rest = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(header + b"".join(rest) + b'{"type":"reply","text":"' + b"x" * 20_000 + b'"}\n')
    os.utime(session, (1_000_000, 1_000_000))
    assert json.loads(header)["workspace"] == str(workspace.resolve())
    assert offered(workspace, 0) == "Last session here: a moment ago. To continue it: %kin resume"
