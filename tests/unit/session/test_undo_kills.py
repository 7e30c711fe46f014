"""SIGKILL at every file of an undo and of a redo: after a resume it is finished, and nothing of the way back is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kin_nb.cli.terminal_host import TerminalHost
from kin_nb.core.agent import Agent
from kin_nb.core.commands.sessions import resume
from kin_nb.core.events import WarningEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.undo import UndoError
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.file_history.tree import tree
from tests.unit.session.killed import REDO, UNDO, Moment, config, killed

CHANGES = "echo 7 > a.py; rm b.txt; chmod +x docs/c.md; ln -s a.py link"
FILES = ("../outside.txt", "a.py", "b.txt", "docs/c.md", "link")
EVERY = range(1, len(FILES) + 1)


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """The folder that holds the workspace, and a file outside of it."""
    workspace = tmp_path / "around" / "workspace"
    (workspace / "docs").mkdir(parents=True)
    for name in ("a.py", "b.txt", "docs/c.md"):
        (workspace / name).write_text("1\n2\n")
    (workspace.parent / "outside.txt").write_text("mine\n")
    return workspace.parent


class Killed:
    """Runs sessions that are killed, around one turn that makes `calls`; without, one that changes five files."""

    def __init__(self, server, around: Path, *calls: dict) -> None:
        self.server, self.around, self.workspace = server, around, around / "workspace"
        self.before = tree(around)
        outside = str(around / "outside.txt")
        write = tool_call("write_file", path=outside, content="theirs\n", overwrite=True)
        server.enqueue(None, calls=list(calls) or [write, tool_call("bash", command=CHANGES)])
        server.enqueue("Done.")

    def at(self, moment: Moment, *prompts: str) -> int:
        return killed(Path(os.environ["KIN_HOME"]), self.workspace, self.server.url, prompts, moment)

    def resumed(self) -> Agent:
        return Agent.resume(config(self.server.url, self.workspace), mode=AgentMode.AUTO_APPROVE)


@pytest.fixture
def kills(model_server, around) -> Killed:
    return Killed(model_server, around)


@pytest.fixture
def changed(kills) -> dict:
    """What the turn leaves."""
    assert kills.at(Moment(), "go") == 0
    assert (kills.around / "outside.txt").read_text() == "theirs\n"
    return tree(kills.around)


@pytest.mark.parametrize("moment", [*(Moment(file=number) for number in EVERY), Moment(undo=1)])
async def test_an_undo_that_was_killed_is_finished_by_the_next_and_redone_as_a_whole(kills, changed, moment):
    assert kills.at(moment, UNDO) == -signal.SIGKILL
    left = tree(kills.around)
    agent = kills.resumed()
    assert (tree(kills.around), len(agent.undos.active)) == (left, 1)
    undone = await agent.undo()
    assert (tree(kills.around), undone.kept, undone.turns) == (kills.before, (), (1,))
    assert [Path(change.path).name for change in undone.files] == [Path(path).name for path in FILES]
    await agent.aclose()
    again = kills.resumed()
    assert (await again.redo()).kept == ()
    assert (tree(kills.around), len(again.undos.active)) == (changed, 1)
    await again.undo()
    assert tree(kills.around) == kills.before
    await again.aclose()


async def test_the_record_of_an_undo_that_was_finished_is_that_of_one_that_was_never_cut_off(kills, changed):
    assert kills.at(Moment(file=3), UNDO) == -signal.SIGKILL
    agent = kills.resumed()
    finished = await agent.undo()
    await agent.redo()
    assert tree(kills.around) == changed
    again = await agent.undo()
    assert again.model_copy(update={"id": finished.id, "seq": finished.seq}) == finished
    await agent.aclose()


@pytest.mark.parametrize("number", range(1, 7))
async def test_where_a_file_and_a_folder_had_changed_places_nothing_is_lost_either(model_server, around, number):
    workspace = around / "workspace"
    (workspace / "empty").mkdir()
    swaps = "rmdir empty; echo 1 > empty; rm -r docs; echo 2 > docs; rm a.py; mkdir a.py; echo 3 > a.py/b"
    kills = Killed(model_server, around, tool_call("bash", command=swaps))
    assert kills.at(Moment(), "go") == 0
    changed = tree(around)
    assert kills.at(Moment(file=number), UNDO) == -signal.SIGKILL
    agent = kills.resumed()
    assert (await agent.undo()).kept == ()
    assert tree(around) == kills.before
    await agent.redo()
    assert tree(around) == changed
    await agent.aclose()


async def test_killed_again_and_again_an_undo_loses_nothing(kills, changed):
    assert [kills.at(Moment(file=2), UNDO) for _ in EVERY] == [-signal.SIGKILL] * 4 + [0]
    agent = kills.resumed()
    assert agent.undos.active == []
    assert tree(kills.around) == kills.before
    await agent.redo()
    assert tree(kills.around) == changed
    await agent.aclose()


@pytest.mark.parametrize("file", EVERY)
async def test_a_redo_that_was_killed_is_finished_by_the_next(kills, changed, file):
    assert kills.at(Moment(), UNDO) == 0
    assert kills.at(Moment(file=file), REDO) == -signal.SIGKILL
    agent = kills.resumed()
    assert agent.undos.active == []
    assert (await agent.redo()).kept == ()
    assert (tree(kills.around), len(agent.undos.active)) == (changed, 1)
    await agent.undo()
    assert tree(kills.around) == kills.before
    await agent.aclose()


async def test_a_resume_says_what_a_killed_undo_put_back_and_redo_waits_for_its_end(kills, changed):
    assert kills.at(Moment(file=4), UNDO) == -signal.SIGKILL
    agent = kills.resumed()
    (warning,) = agent.journal.warnings
    assert warning.startswith("An undo was interrupted when the program ended: 3 of 5 files are restored (")
    assert "/undo finishes it" in warning
    with pytest.raises(UndoError, match="Run /undo again to finish it"):
        await agent.redo()
    await agent.undo()
    await agent.redo()
    await agent.aclose()
    again = kills.resumed()
    assert again.journal.warnings == []
    await again.aclose()


def test_slash_resume_says_so_before_a_prompt_can_come_between(kills, changed):
    assert kills.at(Moment(file=2), UNDO) == -signal.SIGKILL
    with asyncio.Runner() as runner:
        host = TerminalHost(config(kills.server.url, kills.workspace), AgentMode.AUTO_APPROVE, runner)
        (said,) = resume(host, []).lines
        assert "1 of 5 files are restored" in said
        runner.run(host.agent.aclose())


async def test_what_the_person_changed_after_the_kill_stays_theirs(kills, changed):
    assert kills.at(Moment(file=5), UNDO) == -signal.SIGKILL
    (kills.workspace / "b.txt").write_text("mine now\n")
    agent = kills.resumed()
    undone = await agent.undo()
    assert [(kept.path, kept.why) for kept in undone.kept] == [("b.txt", "you changed it since")]
    await agent.redo()
    assert tree(kills.around) == changed | {b"workspace/b.txt": ("file", 0o644, b"mine now\n")}
    await agent.aclose()


async def test_a_prompt_after_a_killed_undo_continues_with_the_files_as_they_are(kills, changed):
    assert kills.at(Moment(file=4), UNDO) == -signal.SIGKILL
    agent, left = kills.resumed(), tree(kills.around)
    kills.server.enqueue("I see.")
    (warning,) = [event for event in await run_turn(agent, "go on") if isinstance(event, WarningEvent)]
    assert "undo was interrupted" in warning.message
    assert "/undo 2 undoes the rest" in warning.message
    assert "/redo" not in warning.message
    assert "Before the next prompt" not in warning.message
    assert tree(kills.around) == left
    await agent.undo(2)
    assert tree(kills.around) == kills.before
    await agent.redo()
    assert tree(kills.around) == left
    await agent.aclose()
