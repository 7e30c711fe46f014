"""A new agent that goes on where somebody else's recording ends: its files, and the commit that it began at."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kin_nb.replay.format.in_log import recording_from_log

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.session.records import RecordedCall, RecordedStep, sha256
from kin_nb.core.tools.file_changes import Content, file_change
from kin_nb.replay.merging.recordings import merge_recordings
from kin_nb.replay.playback.going_on import go_on
from kin_nb.replay.recording import Recording, SessionMeta, WorkspaceMeta
from tests.unit.replay.sessions import recording, turn

BEGAN = "a" * 40
BEFORE, AFTER = b"x = 1\ny = 2\n", b"x = 2\ny = 2\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where somebody works who was not there when it was recorded: the file as the recording left it, a later commit."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_bytes(AFTER)
    name = ("-c", "user.name=n", "-c", "user.email=e")
    for command in (["init", "-q", "--template="], ["add", "."], [*name, "commit", "-qm", "later"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def told(commit: str | None = BEGAN) -> Recording:
    change = file_change("a.py", *(Content("100644", sha256(data), data) for data in (BEFORE, AFTER)))
    call = RecordedCall(id="c1", name="edit_file", arguments="{}", status="ok", output="edited", files=(change,))
    edit = turn(2, "Mend it.", steps=(RecordedStep(content="I edit.", calls=(call,)), RecordedStep(content="Mended.")))
    return recording(turn(1, "Hello."), edit, workspace=WorkspaceMeta(path=".", commit=commit))


async def gone_on(workspace: Path, recorded: Recording) -> Agent:
    agent = Agent(KinConfig(workdir=workspace))
    go_on(agent, recorded)
    return agent


async def test_who_was_not_there_takes_back_the_recordings_files_and_gives_them_back(workspace):
    agent = await gone_on(workspace, told())
    undone = await agent.undo()
    assert undone.kept == ()
    assert (workspace / "a.py").read_bytes() == BEFORE
    redone = await agent.redo()
    await agent.aclose()
    assert redone.kept == ()
    assert (workspace / "a.py").read_bytes() == AFTER


async def test_what_the_recording_does_not_hold_is_listed(workspace):
    recorded = told()
    edit = recorded.turns[1]
    call = edit.calls[0]
    without = call.model_copy(update={"files": (call.files[0].model_copy(update={"patch": None}),)})
    steps = (edit.steps[0].model_copy(update={"calls": (without,)}), edit.steps[1])
    agent = await gone_on(workspace, recording(recorded.turns[0], edit.model_copy(update={"steps": steps})))
    undone = await agent.undo()
    await agent.aclose()
    assert [kept.path for kept in undone.kept] == ["a.py"]
    assert (workspace / "a.py").read_bytes() == AFTER


@pytest.mark.parametrize("commit", [BEGAN, None])
async def test_its_commit_is_the_one_where_the_first_turn_began(workspace, commit):
    agent = await gone_on(workspace, told(commit))
    await agent.aclose()
    assert SessionMeta.of_session(agent.header, workspace).workspace.commit == commit
    assert recording_from_log(agent.journal.root_id, workspace).meta.workspace.commit == commit
    resumed = Agent.resume(KinConfig(workdir=workspace), agent.journal.root_id)
    await resumed.aclose()
    assert SessionMeta.of_session(resumed.header, workspace).workspace.commit == commit


async def test_so_it_is_of_two_that_went_on_and_are_merged(workspace):
    base = told()
    sides = []
    for prompt in "pq":
        agent = await gone_on(workspace, base)
        await agent.aclose()
        meta = SessionMeta.of_session(agent.header, workspace)
        sides.append(Recording(meta.session, (*base.turns, turn(3, prompt, cell_id=prompt)), meta))
    merged = merge_recordings(base, *sides).recording
    assert len(merged.turns) == 4
    assert merged.meta.workspace.commit == BEGAN
