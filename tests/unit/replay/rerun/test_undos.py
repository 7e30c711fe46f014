"""What moves a conversation in a recording: stored, checked, in cells of its own, shown by them, and done again."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.questions import Question
from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    FileChange,
    KeptFile,
    RecordedCall,
    RecordedCompaction,
    RecordedStep,
    Ref,
    TurnRecord,
    UndoRecord,
    sha256,
)
from kin_nb.render import render_undo
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import command_key, command_source, conversation_command, conversation_key
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import raw_records, read_recording, write_recording
from kin_nb.replay.playback.player import Playback
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.drift import Drift
from kin_nb.replay.rerun.turn_replayer import RunState, TurnReplayer, compare_undo, replay_undo
from kin_nb.replay.saving.build import ExecutedCell, session_notebook
from tests.table import each_row
from tests.unit.replay.sessions import LONG, recording, turn, undo


def redo(taken: UndoRecord, seq: int, **fields) -> UndoRecord:
    """Gives back what `taken` took."""
    back = {"type": "redo", "id": f"{seq:015x}e", "seq": seq, "parent": taken.head, "head": taken.parent}
    place = {"key": command_key("redo"), "files": (), "cell_id": None}
    return taken.model_copy(update={**back, **place, **fields})


ONE, TWO = turn(1, "first", cell_id="one"), turn(2, "second", cell_id="two")
TAKEN = undo(TWO, to=ONE, seq=3, cell_id="u")


@pytest.fixture
def undone() -> Recording:
    """The second of two turns is undone, given back, and undone again."""
    files = (FileChange(path="a", before="1" * 64, after="2" * 64, patch=LONG),)
    return recording(
        *(ONE, TWO, undo(TWO, to=ONE, seq=3, files=files), redo(TAKEN, 4), undo(TWO, to=ONE, seq=5, files=files))
    )


def sources(nb) -> list[str]:
    return [cell["source"] for cell in nb["cells"]][1:]


def stored(nb) -> list[dict]:
    return [raw for _, raw in raw_records(nb) if raw["type"] in ("undo", "redo")]


def test_undos_are_read_back_equal_even_when_two_are_alike(undone):
    nb = session_notebook(undone)
    assert read_recording(nb) == undone
    assert [raw["id"] for raw in stored(nb)] == [undo.id for undo in undone.moves]
    assert LONG not in str(stored(nb))


def test_the_digest_tells_undos(undone):
    digests = {replace(undone, records=undone.records[:n]).digest for n in (2, 3, 4, 5)}
    assert len(digests) == 4


def test_a_copied_undo_counts_once(undone):
    nb = session_notebook(undone)
    nb["cells"] += copy.deepcopy(nb["cells"])
    assert read_recording(nb) == undone


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"turns": [1]}, "undo: it was changed"),
        ({"id": "0" * 16}, "undo: it was changed"),
        ({"at": "x"}, "undo: field at"),
        ({"later": 1, "sha": "0" * 64}, "field later is unknown to this version"),
    ],
)
def test_an_edit_is_named_by_its_cell(undone, change, says):
    nb = session_notebook(undone)
    stored(nb)[0].update(change)
    with pytest.raises(RecordingError, match=says) as found:
        read_recording(nb)
    assert str(found.value).startswith("cell 4, ")


def test_an_undo_that_no_cell_holds_is_not_written(undone):
    nb = session_notebook(undone)
    held = {1: [undone.turns[0]], 2: [undone.turns[1]], 3: undone.moves[:2]}
    with pytest.raises(RecordingError, match=r"No cell of this notebook has a place for undo"):
        write_recording(nb, held, undone)


@each_row(
    ("source", "kernel", "command"),
    [
        ("%kin undo", "python3", "undo 1"),
        ("%kin  undo 2\n", "python3", "undo 2"),
        ("%kin redo", "python3", "redo"),
        ("%%kin\n/undo 3", "python3", "undo 3"),
        ("%kin --session helper clear", "python3", "clear"),
        ("%%kin\n/compact", "python3", "compact"),
        ("/undo", "kin", "undo 1"),
        ("/clear", "kin", "clear"),
        ("/undo", "python3", None),
        ("%kin undo\nx = 1", "python3", None),
        ("%kin undone", "python3", None),
        ("%kin clear 2", "python3", None),
        ("%%kin\nundo", "python3", None),
    ],
)
def test_which_cells_move_the_conversation(source, kernel, command):
    nb = new_notebook(metadata={"kernelspec": {"name": kernel, "display_name": kernel}}, cells=[new_code_cell(source)])
    assert conversation_command(nb, nb["cells"][0]) == command
    if command is not None:
        assert conversation_key(nb, nb["cells"][0]) == command_key(command)


def live(*cells: tuple[str, str]):
    return new_notebook(cells=[new_code_cell(source, id=cell_id) for cell_id, source in cells])


A, B, C, U = ("one", "%%kin\nfirst"), ("two", "%%kin\nsecond"), ("three", "%%kin\nthird"), ("u", "%kin undo")
THREE = turn(3, "third", cell_id="three", seq=4)
AGAIN = turn(3, "second", cell_id="two", seq=4)
PAGES = {
    "in order": ((A, B, U, C), (ONE, TWO, TAKEN, THREE), None),
    "run backwards": ((B, A, U, C), (ONE, TWO, TAKEN, THREE), None),
    "asked again above": ((C, A, B, U), (ONE, TWO, TAKEN, THREE), None),
    "the cell was run again": ((A, B, U), (ONE, TWO, TAKEN, AGAIN), None),
    "the cell was edited and run again": (
        (A, ("two", C[1]), U),
        (ONE, TWO, TAKEN, THREE.model_copy(update={"cell_id": "two"})),
        None,
    ),
    "without ids": (
        (A, B, U, ("again", B[1])),
        [each.model_copy(update={"cell_id": None}) for each in (ONE, TWO, TAKEN, AGAIN)],
        None,
    ),
    "run again without ids": (
        (A, B, U),
        [each.model_copy(update={"cell_id": None}) for each in (ONE, TWO, TAKEN, AGAIN)],
        None,
    ),
    "its cell is gone": ((A, U, C), (ONE, TWO, TAKEN, THREE), [A[1], U[1], C[1], B[1]]),
    "the cell that undid is gone": ((A, B, C), (ONE, TWO, TAKEN, THREE), [A[1], B[1], C[1], "%kin undo 1"]),
}


@each_row("name", PAGES)
def test_saving_leaves_each_cell_where_it_is_and_it_shows_its_last_run(name):
    """`wanted`: the cells, where one has to be added; else as they were."""
    cells, records, wanted = PAGES[name]
    session = recording(*records)
    nb = session_notebook(session, source_nb=live(*cells))
    assert sources(nb) == (wanted or [source for _, source in cells])
    saved = read_recording(nb)
    assert [record.id for record in saved.records] == [record.id for record in session.records]
    assert_plays(nb)
    again = session_notebook(saved, source_nb=nb)
    assert again == nb


def test_texts_between_them_stay_where_they_were_written():
    why, after = new_markdown_cell("That was wrong:", id="why"), new_markdown_cell("Better:", id="after")
    check = new_code_cell("check()", id="check")
    cells = [new_code_cell(source, id=cell_id) for cell_id, source in (A, B, U, C)]
    source = new_notebook(cells=[*cells[:2], check, why, cells[2], after, cells[3]])
    nb = session_notebook(recording(ONE, TWO, TAKEN, THREE), source_nb=source)
    assert sources(nb) == [A[1], B[1], "check()", "That was wrong:", U[1], "Better:", C[1]]
    assert_plays(nb)


def test_what_ran_in_a_kernel_without_a_file_plays_from_the_top():
    records = [each.model_copy(update={"cell_id": None}) for each in (ONE, TWO, TAKEN, AGAIN)]
    nb = session_notebook(recording(*records), cells=[ExecutedCell(source) for source in (A[1], B[1], U[1], B[1])])
    assert sources(nb) == [A[1], B[1], U[1], B[1]]
    assert_plays(nb)


def test_cleared_and_compacted_conversations_have_cells_of_their_own_too():
    compact = CompactRecord(
        id="c" * 16,
        parent=TWO.head,
        seq=3,
        key=command_key("compact"),
        compaction=RecordedCompaction(summary="Two turns."),
    )
    clear = ClearRecord(id="d" * 16, parent=compact.head, seq=4, key=command_key("clear"), cell_id="c")
    session = recording(ONE, TWO, compact, clear)
    nb = session_notebook(session)
    assert sources(nb)[2:] == ["%kin compact", "%kin clear"]
    assert read_recording(nb) == session
    assert_plays(nb)
    book = Book.collect(nb)
    assert book.head() == clear
    assert book.conversation(book.head()).sent == ()


def assert_plays(nb) -> None:
    """Every cell plays records of its own, with ids and without, and shows them as saved."""
    for has_ids in (True, False):
        playback = Playback(Book.collect(nb))
        for cell in nb["cells"][1:]:
            key = conversation_key(nb, cell)
            if key is None:
                continue
            shown, by_another = playback.play(key, cell["id"] if has_ids else None)
            assert not by_another
            assert [record.key for record in shown] == [key]
            if isinstance(shown[0], UndoRecord):
                assert cell["outputs"][0]["data"] == render_undo(shown[0]).data


def test_an_undo_within_a_turn_is_one_of_one():
    assert command_source(undo(ONE)) == "%kin undo 1"
    assert command_source(undo(TWO, turns=(1, 2)), "helper") == "%kin --session helper undo 2"


CHANGED = FileChange(path="a", before="1" * 64, after="2" * 64)


@pytest.mark.parametrize(
    ("actual", "drift"),
    [
        (undo(TWO, to=ONE, files=(CHANGED,)), Drift("same")),
        (undo(TWO, to=ONE), Drift("effect", detail="a: changed when recorded, not now")),
        (
            undo(TWO, to=ONE, files=(CHANGED.model_copy(update={"after": None}),)),
            Drift("effect", detail="a: changed differently than recorded"),
        ),
        (
            undo(TWO, to=ONE, kept=(KeptFile(path="a", why="it was changed since"),)),
            Drift("effect", detail="a: left alone now"),
        ),
    ],
)
def test_an_undo_drifts_when_files_come_out_otherwise(actual, drift):
    assert compare_undo(undo(TWO, to=ONE, files=(CHANGED,)), actual) == drift


def write(number: int, content: str, after: TurnRecord | Ref | None = None) -> TurnRecord:
    """A turn that writes a.txt, with what its call recorded; it continues `after` that one."""
    arguments = f'{{"path": "a.txt", "content": "{content}", "overwrite": true}}'
    call = RecordedCall(id=f"call0000{number}", name="write_file", arguments=arguments, status="ok")
    steps = (RecordedStep(content="I write.", calls=(call,)), RecordedStep(content=f"Wrote {content}."))
    return turn(number, f"write {content}", steps=steps, parent=after.head if isinstance(after, TurnRecord) else after)


class Run:
    """Turns and undos run again one after another, every call approved."""

    def __init__(self, folder: Path) -> None:
        self.agent = Agent(KinConfig(workdir=folder, policy="yolo"))
        self.run_state = RunState()

    async def turn(self, record: TurnRecord) -> None:
        assert self.run_state.includes(record.parent)
        known = self.agent.history.call_ids
        rerun = TurnReplayer(
            record, self.agent.workspace.root, approve_recorded=True, known_ids=known, run_state=self.run_state
        )
        rerun.prepare(self.agent)
        async for _ in self.agent.act(rerun.prompt):
            pass
        self.run_state.record_turn(record, self.agent.turns[-1])
        assert [call.output for call in self.agent.turns[-1].calls if call.status != "ok"] == []

    async def undo(self, record: UndoRecord) -> tuple[UndoRecord, Drift]:
        done = await replay_undo(self.agent, record, self.run_state)
        self.run_state.record_move(record)
        return done

    @property
    def said(self) -> list[str]:
        return [message.content or "" for message in self.agent.messages if message.role == "user"]


@pytest.fixture
async def again(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    run = Run(folder)
    yield run
    await run.agent.aclose()


def file(before: str | None, after: str | None) -> tuple[FileChange, ...]:
    """a.txt, from one content to another."""
    sides = {name: None if text is None else sha256(text) for name, text in (("before", before), ("after", after))}
    return (FileChange(path="a.txt", **sides),)


async def test_undos_and_redos_really_happen_again(again):
    one = write(1, "one")
    two = write(2, "two", one)
    await again.turn(one)
    await again.turn(two)
    path = again.agent.workspace.root / "a.txt"
    taken = undo(two, to=one, seq=3, files=file("two", "one"))
    shown, drift = await again.undo(taken)
    assert (drift, path.read_text()) == (Drift("same"), "one")
    assert shown == taken
    _, drift = await again.undo(redo(taken, 4))
    assert drift == Drift("effect", detail="a.txt: changed now, not when recorded")
    assert path.read_text() == "two"
    await again.undo(undo(two, seq=5, turns=(1, 2), turn_ids=(one.id, two.id)))
    assert not path.exists()
    await again.turn(write(3, "three"))
    assert again.said == ["write three"]


async def test_a_turn_continues_from_its_parent_though_the_undo_was_not_run(again):
    one = write(1, "one")
    await again.turn(one)
    await again.turn(write(3, "two", one))  # the recording's third: the second was not run
    await again.turn(write(4, "four", one))
    assert again.said == ["write one", "write four"]
    first, _, last = again.agent.turns
    assert last.parent == first.head
    assert (again.agent.workspace.root / "a.txt").read_text() == "four"


async def test_a_turn_continues_from_within_one_that_was_cut_short(again):
    one = write(1, "one")
    await again.turn(one)
    await again.turn(write(2, "two", Ref(id=one.id, step=2)))
    said = [message.content for message in again.agent.messages if message.role == "assistant"]
    assert said == ["I write.", "I write.", "Wrote two."]


async def test_a_conversation_that_was_cleared_begins_again(again):
    one = write(1, "one")
    await again.turn(one)
    again.run_state.record_move(ClearRecord(id="c" * 16, parent=one.head, seq=2))
    assert again.run_state.is_at(None)
    await again.turn(write(2, "two"))
    assert again.said == ["write two"]


async def test_a_turn_after_a_compaction_takes_its_summary_once(again):
    one = write(1, "one")
    compaction = RecordedCompaction(summary="It was about {workspace}/a.txt.", summarised=4)
    compact = CompactRecord(id="c" * 16, parent=one.head, ancestors=(one.id,), seq=2, compaction=compaction)
    await again.turn(one)
    again.run_state.record_move(compact)
    assert again.run_state.is_at(Ref(id=compact.id))
    await again.turn(write(2, "two", compact.head))
    first, *_, last = again.said
    assert f"It was about {again.agent.workspace.root}/a.txt." in first
    assert (last, len(again.said)) == ("write two", 2)


def test_it_is_known_which_places_of_the_recording_were_run():
    so_far = RunState()
    one, two = turn(1, "a"), turn(2, "b", parent=Ref(id=turn(1, "a").id))
    compact = CompactRecord(id="c" * 16, parent=two.head, seq=3, compaction=RecordedCompaction(summary="s"))
    assert so_far.includes(None), "a conversation that begins"
    assert so_far.is_at(None)
    assert not so_far.includes(one.head)
    TurnReplayer(one, Path(), approve_recorded=False, run_state=so_far)
    assert not so_far.includes(one.head), "it was not begun"
    so_far.record_turn(one, one.model_copy(update={"id": "e" * 16}))
    assert so_far.place_in_run(one.id, 2) == Ref(id="e" * 16, step=2)
    assert so_far.is_at(one.head)
    assert (so_far.includes(one.head), so_far.includes(Ref(id=one.id, step=1)), so_far.includes(two.head)) == (
        True,
        True,
        False,
    )
    so_far.record_move(compact)
    assert not so_far.includes(compact.head), "what it sums up was not run"
    so_far.record_turn(two, two)
    so_far.record_move(compact)
    assert (so_far.includes(compact.head), so_far.turns[compact.id]) == (True, two.id)
    so_far.record_move(undo(two, to=one))
    assert so_far.is_at(one.head)
    so_far.record_move(ClearRecord(id="d" * 16, parent=one.head, seq=5))
    assert so_far.is_at(None)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (redo(undo(ONE), 2), "There is nothing to redo"),
        (undo(TWO, to=ONE), "turn 2 did not run in this replay"),
    ],
)
async def test_an_undo_that_cannot_be_done_is_drift(again, record, why):
    await again.turn(write(1, "one"))
    shown, drift = await again.undo(record)
    assert shown == record
    assert drift.kind == "effect"
    assert why in drift.detail


async def test_an_undo_that_drifts_after_something_else_did_says_so(again):
    again.run_state.drifted = True
    _, drift = await again.undo(undo(TWO, to=ONE))
    assert drift.detail.startswith("after drift: it cannot be done")


async def test_a_question_is_answered_as_it_was_and_no_other(tmp_path):
    said = RecordedCall(id="call00001", name="ask_user", arguments="{}", status="ok", output="in {workspace}")
    not_said = RecordedCall(id="call00002", name="ask_user", arguments="{}", status="error", output="nobody")
    record = turn(1, "ask", steps=(RecordedStep(calls=(said, not_said)),))

    async def person(question: Question) -> str:
        return f"asked {question.text}"

    answer = TurnReplayer(record, tmp_path, approve_recorded=False).answer_questions(person)
    assert await answer(Question("where?", call_id="call00001")) == f"in {tmp_path}"
    assert await answer(Question("why?", call_id="call00002")) == "asked why?"
    assert await answer(Question("who?", call_id="other")) == "asked who?"
