"""SIGKILL at any moment of a session: what it had is there after a resume, and undo brings back the files of before."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.events import TurnEndEvent, WarningEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import FileChange
from kin_nb.core.resume import UNSURE
from kin_nb.core.session.log import LOG_NAME
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.file_history.tree import tree
from tests.unit.session.killed import HALFWAY, UNDO, Moment, Plan, config, killed

SHORT, LONG = range(8), range(8, 200)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "docs").mkdir(parents=True)
    for name in ("a.py", "b.txt", "docs/c.md"):
        (folder / name).write_text("1\n2\n")
    return folder


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one that `_own_home` has set."""
    return Path(os.environ["KIN_HOME"])


def log_lines(home: Path) -> list[dict[str, Any]]:
    """Whole lines of the one session that there is."""
    logs = list(home.glob(f"sessions/*/{LOG_NAME}"))
    return [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]


async def resumed(url: str, workspace: Path, rules: str = "openai") -> Agent:
    return Agent.resume(config(url, workspace, rules), mode=AgentMode.AUTO_APPROVE)


def assert_whole(agent: Agent, lines: list[dict[str, Any]]) -> None:
    """No result that the log had is missing, and each call is answered exactly once."""
    calls = {call.id: call.model_dump(mode="json") for turn in agent.turns for call in turn.calls}
    for line in lines:
        if line["type"] == "result":
            assert {key: calls[line["call"]["id"]][key] for key in line["call"]} == line["call"]
    answers = Counter(message.tool_call_id for message in agent.messages if message.tool_call_id)
    asked = Counter(call.id for message in agent.messages for call in message.tool_calls or ())
    assert answers == asked == Counter(calls.keys())
    assert not [call for call in calls.values() if call["status"] == "pending"]


async def take_up_and_undo(home: Path, workspace: Path, before: Any, rules: str = "openai") -> None:
    lines, left = log_lines(home), tree(workspace)
    with ModelServer.start(rules=rules) as server:
        server.enqueue("Fine.")
        agent = await resumed(server.url, workspace, rules)
        assert_whole(agent, lines)
        ended = (await run_turn(agent, "go on"))[-1]
        assert isinstance(ended, TurnEndEvent)
        assert (ended.record.outcome, server.violations) == ("done", [])
        undone = await agent.undo(1000)
        assert undone.kept == ()
        assert tree(workspace) == before
        again = await resumed_after_close(agent, server.url, workspace, rules)
        assert again.messages[1:] == []
        await again.redo()
        assert tree(workspace) == left
        await again.aclose()


async def resumed_after_close(agent: Agent, url: str, workspace: Path, rules: str) -> Agent:
    await agent.aclose()
    return await resumed(url, workspace, rules)


def moment(chance: random.Random, plan: Plan) -> Moment:
    """Whichever comes first. Before the second record there is no turn to resume."""
    return Moment(record=chance.randint(2, plan.records), look=chance.choice((0, 0, 1, 2, 3)))


@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG)])
async def test_a_killed_session_continues_whole_and_can_be_undone(model_server, home, workspace, seed):
    chance = random.Random(seed)
    plan = Plan.random(chance)
    if chance.random() < 0.3:
        chance.choice(plan.turns)[-1][-1] = tool_call("bash", command=HALFWAY)
    plan.enqueue(model_server)
    before = tree(workspace)
    assert killed(home, workspace, model_server.url, ["go"] * len(plan.turns), moment(chance, plan)) == -signal.SIGKILL
    await take_up_and_undo(home, workspace, before, chance.choice(["openai", "mistral"]))


@pytest.fixture
def halfway(model_server, home, workspace):
    """A session that was killed in the middle of its command."""
    model_server.enqueue("I begin.", calls=[tool_call("bash", command=HALFWAY)])
    assert killed(home, workspace, model_server.url, ["go"], Moment()) == -signal.SIGKILL
    assert [line["type"] for line in log_lines(home)][-1] == "run"


async def test_what_a_killed_command_changed_is_found_at_resume_and_said(model_server, workspace, home, halfway):
    agent = await resumed(model_server.url, workspace)
    (call,) = agent.turns[-1].calls
    assert call.status == "interrupted"
    assert [(change.path, change.before_mode, change.after_mode) for change in call.files] == [
        ("a.py", "100644", ""),
        ("b.txt", "100644", "100644"),
        ("half/way", "", "040000"),
    ]
    assert call.uncovered == UNSURE
    model_server.enqueue("I see.")
    (warning,) = [event for event in await run_turn(agent, "what happened?") if isinstance(event, WarningEvent)]
    assert warning.message == (
        "bash was interrupted when the program ended. All changes since it started count as its own, also yours.\n"
        "Undo of turn 1 restores, unless they change again: a.py, b.txt, half/way."
    )
    assert (await agent.undo(2)).uncovered == (UNSURE,)
    await agent.aclose()


LARGE = "x" * 2_500_000
OVERWRITE = tool_call("write_file", path="data.txt", content="small\n", overwrite=True)


@pytest.mark.parametrize(
    ("call", "left"),
    [
        (OVERWRITE, "data.txt (its content is not kept any more)"),
        (tool_call("bash", command="rm a.py b.txt"), "a.py (its content is not kept any more), b.txt"),
    ],
    ids=["a file that is too large", "contents that are lost"],
)
async def test_undo_of_a_call_that_was_cut_off_is_promised_only_where_it_is_not_refused(
    model_server, home, workspace, call, left
):
    (workspace / "data.txt").write_text(LARGE)
    for name in ("a.py", "b.txt"):
        (workspace / name).write_text(f"only in {name}\n")
    model_server.enqueue(None, calls=[call])
    assert killed(home, workspace, model_server.url, ["go"], Moment(look=1)) == -signal.SIGKILL
    if call is not OVERWRITE:
        (store,) = home.glob("checkpoints/*.sqlite")
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("DELETE FROM blobs")
    agent = await resumed(model_server.url, workspace)
    (warning,) = agent.journal.warnings
    assert f"Undo of turn 1 does not restore: {left}" in warning
    assert "restores" not in warning
    undone = await agent.undo()
    assert {(kept.path, kept.why) for kept in undone.kept} == {
        (change.path, "its content is not kept any more") for change in undone_files(agent)
    }
    await agent.aclose()


def undone_files(agent: Agent) -> list[FileChange]:
    return [change for call in agent.turns[-1].calls for change in call.files]


async def test_a_call_that_was_cut_off_names_what_comes_back_and_what_does_not(model_server, home, workspace):
    (workspace / "data.txt").write_text(LARGE)
    model_server.enqueue(None, calls=[OVERWRITE, tool_call("bash", command="rm b.txt")])
    assert killed(home, workspace, model_server.url, ["go"], Moment(look=2)) == -signal.SIGKILL
    agent = await resumed(model_server.url, workspace)
    (warning,) = agent.journal.warnings
    assert "Undo of turn 1 restores, unless they change again: b.txt." in warning
    undone = await agent.undo()
    assert [change.path for change in undone.files] == ["b.txt"]
    assert [kept.path for kept in undone.kept] == ["data.txt"]
    await agent.aclose()


async def test_what_the_person_changes_after_the_resume_is_theirs(model_server, workspace, halfway):
    agent = await resumed(model_server.url, workspace)
    (workspace / "b.txt").write_text("the person's\n")
    undone = await agent.undo()
    assert [(kept.path, kept.why) for kept in undone.kept] == [("b.txt", "you changed it since")]
    assert (workspace / "a.py").read_text() == "1\n2\n"
    await agent.aclose()


async def test_a_second_resume_finds_the_same_and_looks_no_more(model_server, workspace, home, halfway):
    first = await resumed(model_server.url, workspace)
    await first.aclose()
    (workspace / "docs/c.md").write_text("the person's, much later\n")
    second = await resumed(model_server.url, workspace)
    assert second.turns == first.turns
    assert [line["type"] for line in log_lines(home)][-2:] == ["resumed", "result"]
    await second.aclose()


async def test_a_killed_call_whose_changes_cannot_be_known_says_so(model_server, workspace, home, halfway):
    for path in home.glob("checkpoints/*.sqlite*"):
        path.write_bytes(b"no database")
    agent = await resumed(model_server.url, workspace)
    (call,) = agent.turns[-1].calls
    assert call.files == ()
    assert "what it changed until then is not known: " in call.uncovered
    await agent.aclose()


async def test_a_command_of_a_subagent_is_found_too(model_server, home, workspace):
    before = tree(workspace)
    task = tool_call("task", description="Tidy up", prompt="Tidy up.", profile="general")
    model_server.enqueue(None, calls=[task])
    model_server.enqueue(None, calls=[tool_call("bash", command=HALFWAY)])
    assert killed(home, workspace, model_server.url, ["go"], Moment()) == -signal.SIGKILL
    assert tree(workspace) != before
    await take_up_and_undo(home, workspace, before)


async def test_an_undo_that_was_killed_is_undone_to_its_end(model_server, home, workspace):
    before = tree(workspace)
    model_server.enqueue(None, calls=[tool_call("bash", command="rm a.py; echo 3 > b.txt")])
    model_server.enqueue("Done.")
    assert killed(home, workspace, model_server.url, ["go", UNDO], Moment(undo=1)) == -signal.SIGKILL
    agent = await resumed(model_server.url, workspace)
    assert len(agent.undos.active) == 1
    assert (await agent.undo()).kept == ()
    assert (tree(workspace), agent.messages[1:]) == (before, [])
    await agent.aclose()


async def test_a_session_that_ends_well_leaves_nothing_to_look_for(model_server, trusted, workspace):
    model_server.enqueue(
        None, calls=[tool_call("bash", command="touch x"), tool_call("write_file", path="y", content="")]
    )
    model_server.enqueue("Done.")
    await run_turn(trusted)
    await trusted.aclose()
    (workspace / "later").write_text("")
    again = Agent.resume(trusted.base_config)
    assert again.turns == trusted.turns
    await again.aclose()
