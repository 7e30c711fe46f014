"""A new agent that continues where someone else's notebook ends: its conversation, its files, and the commit that it began at."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.file_history.file_changes import Content, file_change
from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    RecordedCall,
    RecordedCompaction,
    RecordedStep,
    Ref,
    SessionRecord,
    sha256,
)
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import command_key
from kin_nb.replay.merging import merge_recordings
from kin_nb.replay.playback.player import resume_from
from kin_nb.replay.recording import Recording, SessionMeta, WorkspaceMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.sources import combine_records, session_from_log
from tests.unit.replay.sessions import recording, turn, undo

BEGAN = "a" * 40
BEFORE, AFTER = b"x = 1\ny = 2\n", b"x = 2\ny = 2\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where someone works who was not there when it was recorded: the file as the recording left it, a later commit."""
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


def book_of(recorded: Recording) -> Book:
    """Of a notebook that was saved."""
    return Book.collect(session_notebook(recorded))


async def gone_on(workspace: Path, recorded: Recording) -> Agent:
    agent = Agent(KinConfig(workdir=workspace))
    book = book_of(recorded)
    resume_from(agent, book, book.head())
    return agent


async def said(workspace: Path, *records: SessionRecord, at: SessionRecord | None = None) -> list[str]:
    """What is in the history of an agent that continues from these, or of them from `at`."""
    agent = Agent(KinConfig(workdir=workspace))
    book = book_of(recording(*records))
    resume_from(agent, book, at or book.head())
    await agent.aclose()
    return [str(message.content) for message in agent.messages if message.role != "system"]


async def test_who_was_not_there_undoes_the_recordings_files_and_gives_them_back(workspace):
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
    assert SessionMeta.from_header(agent.header, workspace).workspace.commit == commit
    assert session_from_log(agent.journal.root_id, workspace).recording.meta.workspace.commit == commit
    resumed = Agent.resume(KinConfig(workdir=workspace), agent.journal.root_id)
    await resumed.aclose()
    assert SessionMeta.from_header(resumed.header, workspace).workspace.commit == commit


async def test_so_it_is_of_two_that_continued_and_are_merged(workspace):
    base = told()
    sides = []
    for prompt in "pq":
        agent = await gone_on(workspace, base)
        await agent.aclose()
        meta = SessionMeta.from_header(agent.header, workspace)
        own = turn(3, prompt, cell_id=prompt, id=prompt * 16, parent=base.turns[-1].head)
        sides.append(Recording(meta, (*base.turns, own)))
    merged = merge_recordings(base, *sides).recording
    assert [each.prompt for each in merged.turns] == ["Hello.", "Mend it.", "p", "q"]
    assert merged.meta.workspace.commit == BEGAN


A, B, C = (turn(number, text, cell_id=text) for number, text in enumerate("abc", 1))
ALL = ["a", "Answer 1.", "b", "Answer 2.", "c", "Answer 3."]


async def test_all_that_leads_to_where_the_notebook_ends_is_sent(workspace):
    assert await said(workspace, A, B, C) == ALL


async def test_what_comes_later_than_the_cell_is_not_sent(workspace):
    a, b, c = recording(A, B, C).turns
    assert await said(workspace, a, b, c, at=b) == ALL[:4]


async def test_an_empty_notebook_is_continued_from_with_nothing(workspace):
    assert await said(workspace) == []


async def test_after_an_undo_what_was_undone_is_not_sent(workspace):
    a, b = recording(A, B).turns
    assert await said(workspace, a, b, undo(b, to=a)) == ALL[:2]
    assert await said(workspace, a, undo(a)) == []
    taken = undo(b, to=a)
    again = {"id": "e" * 16, "seq": 4, "parent": a.head, "head": b.head, "ancestors": (b.id, a.id)}
    assert await said(workspace, a, b, taken, undo(b, type="redo", **again)) == ALL[:4]


async def test_after_a_clear_nothing_is_sent_and_what_came_before_it_is_not_forgotten(workspace):
    a, b = recording(A, B).turns
    cleared = ClearRecord(id="e" * 16, parent=b.head, seq=3, key=command_key("clear"))
    assert await said(workspace, a, b, cleared) == []
    agent = await gone_on(workspace, recording(a, b, cleared))
    await agent.aclose()
    assert agent.header["turns_before"] == 2
    assert agent.conversation.lineage.head is None


async def test_a_compaction_that_the_notebook_ends_with_is_taken_up(workspace):
    a, b = recording(A, B).turns
    compaction = RecordedCompaction(summary="All about a and b.", summarised=4)
    compact = CompactRecord(
        id="e" * 16, parent=b.head, seq=3, ancestors=(b.id, a.id), key=command_key("compact"), compaction=compaction
    )
    found = await said(workspace, a, b, compact)
    assert "All about a and b." in found[0]
    assert "Answer 1." not in str(found)
    after = turn(4, "d", parent=compact.head, ancestors=(compact.id, b.id, a.id))
    found = await said(workspace, a, b, compact, after)
    assert "All about a and b." in found[0]
    assert found[-2:] == ["d", "Answer 4."]
    assert "Answer 1." not in str(found)


async def test_what_was_undone_into_a_turn_is_continued_from_within_it(workspace):
    call = RecordedCall(id="c", name="bash", arguments="{}", status="ok", output="done")
    whole = turn(1, "a", steps=(RecordedStep(content="one", calls=(call,)), RecordedStep(content="two")))
    cut = undo(whole).model_copy(update={"head": Ref(id=whole.id, step=2), "ancestors": (whole.id,)})
    assert await said(workspace, whole, cut) == ["a", "one", "done"]
    agent = await gone_on(workspace, recording(whole, cut))
    await agent.aclose()
    assert agent.conversation.lineage.head == cut.head


async def test_a_turn_whose_cell_was_deleted_is_named_and_not_sent(workspace):
    a, b, c = recording(A, B, C).turns
    assert await said(workspace, a, c) == [*ALL[:2], *ALL[4:]]
    agent = Agent(KinConfig(workdir=workspace))
    book = book_of(recording(a, c))
    found = resume_from(agent, book, book.head())
    await agent.aclose()
    assert (found.turns, found.missing_ids) == ((a, c), (b.id,))


async def test_new_turns_come_after_all_that_the_notebook_holds(workspace):
    """Also of branches that it does not continue from."""
    a, b, c = recording(A, B, C).turns
    branch = turn(9, "branch", parent=a.head, ancestors=(a.id,), seq=20)
    agent = Agent(KinConfig(workdir=workspace))
    resume_from(agent, book_of(recording(a, b, c, branch)), c)
    undone = await agent.undo()
    await agent.aclose()
    assert agent.header["turns_before"] == 9
    assert (undone.parent, undone.head, undone.ancestors) == (c.head, b.head, (b.id, a.id))
    assert undone.seq == 21
    assert undone.turns == (3,)


async def test_numbers_that_repeat_are_told_apart(workspace):
    """Of a notebook that was merged."""
    other = turn(2, "q", id="e" * 16, parent=A.head, ancestors=(A.id,), seq=3)
    last = turn(2, "r", id="f" * 16, parent=other.head, ancestors=(other.id, A.id), seq=4)
    assert await said(workspace, A, B, other, last) == ["a", "Answer 1.", "q", "Answer 2.", "r", "Answer 2."]


async def test_what_was_continued_with_is_in_its_log_with_the_ids_that_the_notebook_has(workspace):
    recorded = recording(A, B, C)
    agent = await gone_on(workspace, recorded)
    await agent.aclose()
    named = session_from_log(agent.journal.root_id, workspace)
    assert [each.id for each in named.recording.turns] == [each.id for each in recorded.turns]


async def test_a_redacted_record_of_the_notebook_is_used_instead_of_the_one_in_the_log():
    whole = turn(1, "My password is hunter2.")
    redacted, later = turn(1, "My password is [REDACTED]."), turn(2, "Hello.")
    assert whole.id == redacted.id
    assert combine_records([redacted], [whole, later]) == (redacted, later)
