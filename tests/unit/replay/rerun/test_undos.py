"""Undos in a recording: stored, checked, put where they happened, played in order, and done again."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.questions import Question
from kin_nb.core.session.records import (
    FileChange,
    KeptFile,
    Place,
    RecordedCall,
    RecordedStep,
    TurnRecord,
    UndoRecord,
    sha256,
)
from kin_nb.replay.cells.matching import Undoing, undoing
from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.errors import NotRecorded, RecordingError
from kin_nb.replay.format.in_notebook import read_recording, write_recording
from kin_nb.replay.playback.player import Player, undo_card
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.drift import Drift
from kin_nb.replay.rerun.turns import Rerun, SoFar
from kin_nb.replay.rerun.undos import compare_undo, undo_again
from kin_nb.replay.saving.making import Cell, session_notebook
from tests.unit.replay.sessions import LONG, recording, turn

ONE, REDO = Undoing(), Undoing("redo")


def undo(at: int, *turns: int, **fields) -> UndoRecord:
    return UndoRecord(at=at, turns=turns, to=Place(turn=turns[0]), **fields)


def redo(at: int, *turns: int) -> UndoRecord:
    return UndoRecord(type="redo", at=at, turns=turns, to=Place(turn=turns[-1], step=-1))


def talk(*undos: UndoRecord, ids: tuple[str | None, ...] = ("one", "two", "three"), same: bool = False) -> Recording:
    """Three turns; `same`: the last has the words of the second."""
    prompts = ("first", "second", "second" if same else "third")
    turns = [turn(n, prompt, cell_id=ids[n - 1]) for n, prompt in enumerate(prompts, 1)]
    whole = recording(*turns)
    return Recording(whole.session, whole.turns, whole.meta, undos=undos)


@pytest.fixture
def undone() -> Recording:
    patch = FileChange(path="a", before="1" * 64, after="2" * 64, patch=LONG)
    return talk(undo(2, 2, files=(patch,)), redo(2, 2), undo(2, 2, files=(patch,)))


def sources(nb) -> list[str]:
    return [cell["source"] for cell in nb["cells"]][1:]


def stored(nb) -> list[dict]:
    return [raw for cell in nb["cells"] for raw in cell["metadata"].get("kin", []) if raw["type"] in ("undo", "redo")]


def test_undos_are_read_back_equal_even_when_two_are_alike(undone):
    nb = session_notebook(undone)
    assert read_recording(nb) == undone
    assert [raw["n"] for raw in stored(nb)] == [1, 2, 3]
    assert LONG not in str([cell["metadata"] for cell in nb["cells"]])


def test_the_digest_tells_undos_and_is_the_old_one_without(undone):
    digests = {undone.digest, talk(*undone.undos[:2]).digest, talk().digest}
    assert len(digests) == 3
    assert talk().digest == recording(*talk().turns).digest


def test_a_copied_undo_counts_once(undone):
    nb = session_notebook(undone)
    nb["cells"] += copy.deepcopy(nb["cells"])
    assert read_recording(nb) == undone


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"turns": [1]}, "undo 1: it was changed"),
        ({"n": 2}, "undo 2: it was changed"),
        ({"n": "x"}, "undo x: field n"),
        ({"at": "x"}, "undo 1: field at"),
        ({"later": 1, "sha": "0" * 64}, "field later is of a later version"),
    ],
)
def test_an_edit_is_named_by_its_cell(undone, change, says):
    nb = session_notebook(undone)
    stored(nb)[0].update(change)
    with pytest.raises(RecordingError, match=says) as found:
        read_recording(nb)
    assert str(found.value).startswith("cell 4, ")


def test_an_undo_whose_turns_are_missing_is_no_recording(undone):
    nb = session_notebook(undone)
    for cell in nb["cells"]:
        if any(raw["type"] == "turn" and raw["turn"] > 1 for raw in cell["metadata"].get("kin", [])):
            del cell["metadata"]["kin"]
    with pytest.raises(RecordingError, match="undos come after turn 2, 2, 2 of 1"):
        read_recording(nb)


def test_a_notebook_without_cells_that_undo_cannot_hold_undos(undone):
    nb = session_notebook(undone)
    nb["cells"] = [cell for cell in nb["cells"] if undoes(nb, cell) is None]
    with pytest.raises(RecordingError, match=r"No cell of this notebook plays undo 1\. Add a cell with %kin undo 1"):
        write_recording(nb, undone)


@pytest.mark.parametrize(
    ("source", "kernel", "is_"),
    [
        ("%kin undo", "python3", ONE),
        ("%kin  undo 2\n", "python3", Undoing("undo", 2)),
        ("%kin redo", "python3", REDO),
        ("%%kin\n/undo 3", "python3", Undoing("undo", 3)),
        ("/undo", "kin", ONE),
        ("/undo", "python3", None),
        ("%kin undo\nx = 1", "python3", None),
        ("%kin undone", "python3", None),
        ("%%kin\nundo", "python3", None),
    ],
)
def test_which_cells_undo(source, kernel, is_):
    nb = new_notebook(metadata={"kernelspec": {"name": kernel, "display_name": kernel}}, cells=[new_code_cell(source)])
    assert undoes(nb, nb["cells"][0]) == is_


def live(*cells: tuple[str, str]):
    return new_notebook(cells=[new_code_cell(source, id=cell_id) for cell_id, source in cells])


A, B, C = ("one", "%%kin\nfirst"), ("two", "%%kin\nsecond"), ("three", "%%kin\nthird")
U = ("u", "%kin undo")
PLACES = {
    "in order": ((A, B, U, C), ("one", "two", "three"), False, [A[1], B[1], "U", C[1]]),
    "the cell was edited and run again": ((A, ("two", C[1]), U), ("one", "two", "two"), False, [A[1], B[1], "U", C[1]]),
    "the cell was run again": ((A, B, U), ("one", "two", "two"), True, [A[1], B[1], "U", B[1]]),
    "without ids": ((A, B, U, ("again", B[1])), (None, None, None), True, [A[1], B[1], "U", B[1]]),
    "run again without ids": ((A, B, U), (None, None, None), True, [A[1], B[1], "U", B[1]]),
    "asked again above": ((C, A, B, U), ("one", "two", "three"), False, [A[1], B[1], "U", C[1]]),
    "run backwards": ((B, A, U, C), ("two", "one", "three"), False, None),
    "its cell is gone": ((A, U, C), ("one", "two", "three"), False, None),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_saved_notebook_plays_from_the_top_whatever_was_run_again(name):
    cells, ids, same, wanted = PLACES[name]
    session = talk(undo(2, 2), ids=ids, same=same)
    nb = session_notebook(session, source_nb=live(*cells))
    if wanted is not None:
        assert sources(nb) == ["%kin undo 1" if source == "U" else source for source in wanted]
    session = read_recording(nb)
    assert_plays(nb, session)
    again = session_notebook(session, source_nb=nb)
    assert sources(again) == sources(nb)
    assert read_recording(again) == session


def test_an_undo_stays_below_what_was_written_before_it():
    why, after = new_markdown_cell("That was wrong:", id="why"), new_markdown_cell("Better:", id="after")
    check = new_code_cell("check()", id="check")
    cells = [new_code_cell(source, id=cell_id) for cell_id, source in (A, B, U, C)]
    source = new_notebook(cells=[*cells[:2], check, why, cells[2], after, cells[3]])
    session = talk(undo(2, 2), ids=("one", "two", "three"))
    nb = session_notebook(session, source_nb=source)
    wanted = [A[1], B[1], "check()", "That was wrong:", "%kin undo 1", "Better:", C[1]]
    assert sources(nb) == wanted
    assert session_notebook(read_recording(nb), source_nb=nb) == nb


def test_each_undo_stands_where_it_was_typed_and_one_that_was_not_below_the_one_before_it():
    texts = [new_markdown_cell(f"{n}", id=f"m{n}") for n in range(4)]
    typed = [new_code_cell(text, id=f"t{n}") for n, text in enumerate(("%kin undo 7", "%kin undo", "%kin redo"))]
    cells = [new_code_cell(source, id=cell_id) for cell_id, source in (A, B)]
    cells += [each for pair in zip(texts, typed, strict=False) for each in pair] + [texts[3]]
    whole = talk(undo(2, 2), redo(2, 2), undo(2, 2))
    nb = session_notebook(replace(whole, turns=whole.turns[:2]), source_nb=new_notebook(cells=cells))
    assert sources(nb) == [A[1], B[1], "0", "1", "%kin undo 1", "2", "%kin redo", "%kin undo 1", "3"]


def test_what_ran_in_a_kernel_without_a_file_plays_from_the_top():
    session = talk(undo(2, 2), undo(2, 1), same=True, ids=("x", "y", "y"))
    cells = [Cell(source) for source in (A[1], B[1], U[1], "%kin undo 5", B[1])]
    nb = session_notebook(session, cells=cells)
    assert sources(nb) == [A[1], B[1], "%kin undo 1", "%kin undo 1", B[1]]
    assert_plays(nb, read_recording(nb))


def assert_plays(nb, session: Recording) -> None:
    """Every cell plays a record of its own, every undo after the turns that it knew of and before the others."""
    player = Player(session)
    played: list[int] = []
    for cell in nb["cells"][1:]:
        asked = undoes(nb, cell)
        if asked is None:
            played.append(player.turn(asked_key(nb, cell), None)[0].turn)
        else:
            number, record = player.undo(asked, None)
            assert set(played) == {turn.turn for turn in session.turns[: record.at]}, number
            assert cell["outputs"][0]["data"] == undo_card(record).data
    assert sorted(played) == [turn.turn for turn in session.turns]


def test_a_cell_plays_the_undo_that_comes_next_and_again_the_same():
    player = Player(talk(undo(2, 2), redo(2, 2), undo(2, 1, 2)))
    keys = [record.key for record in player.recording.turns]
    with pytest.raises(NotRecorded, match="No undo of 1 turn comes here"):
        player.undo(ONE, "u")
    for key in keys[:2]:
        player.turn(key, None)
    with pytest.raises(NotRecorded, match="No redo comes here"):
        player.undo(REDO, "r")
    assert player.undo(ONE, "u")[0] == 1
    assert player.undo(ONE, None)[0] == 1  # run again, by a front end that tells no ids
    assert player.undo(REDO, "r")[0] == 2
    assert player.undo(ONE, "u")[0] == 1
    assert player.undo(Undoing("undo", 3), "v")[0] == 3, "two stood, and two were undone"
    assert player.undo(Undoing("undo", 2), "v")[0] == 3
    player.turn(keys[2], None)
    with pytest.raises(NotRecorded):
        player.undo(REDO, "other")
    assert player.undo(REDO, "r")[0] == 2


def test_an_undo_within_a_turn_is_played_by_an_undo_of_one():
    assert undoing(UndoRecord(at=1, turns=(), to=Place(turn=1, step=2))) == ONE


CHANGED = FileChange(path="a", before="1" * 64, after="2" * 64)


@pytest.mark.parametrize(
    ("actual", "drift"),
    [
        (undo(2, 2, files=(CHANGED,)), Drift("same")),
        (undo(2, 2), Drift("effect", detail="a: changed when recorded, not now")),
        (
            undo(2, 2, files=(CHANGED.model_copy(update={"after": None}),)),
            Drift("effect", detail="a: changed otherwise than recorded"),
        ),
        (
            undo(2, 2, kept=(KeptFile(path="a", why="it was changed since"),)),
            Drift("effect", detail="a: left alone now"),
        ),
    ],
)
def test_an_undo_drifts_when_files_come_out_otherwise(actual, drift):
    assert compare_undo(undo(2, 2, files=(CHANGED,)), actual) == drift


def write(number: int, content: str, *, origin: Place | None = None) -> TurnRecord:
    """A turn that writes a.txt, with what its call recorded."""
    arguments = f'{{"path": "a.txt", "content": "{content}", "overwrite": true}}'
    call = RecordedCall(id=f"call0000{number}", name="write_file", arguments=arguments, status="ok")
    steps = (RecordedStep(content="I write.", calls=(call,)), RecordedStep(content=f"Wrote {content}."))
    return turn(number, f"write {content}", steps=steps, origin=origin)


class Run:
    """Turns and undos run again one after another, every call approved."""

    def __init__(self, folder: Path) -> None:
        self.agent = Agent(KinConfig(workdir=folder, policy="yolo"))
        self.so_far = SoFar()

    async def turn(self, record: TurnRecord) -> None:
        known = self.agent.history.call_ids
        rerun = Rerun(record, self.agent.workspace.root, approve_recorded=True, known_ids=known, so_far=self.so_far)
        rerun.prepare(self.agent)
        async for _ in self.agent.act(rerun.prompt):
            pass
        assert [call.output for call in self.agent.turns[-1].calls if call.status != "ok"] == []

    async def undo(self, record: UndoRecord) -> tuple[UndoRecord, Drift]:
        return await undo_again(self.agent, record, self.so_far)

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
    await again.turn(write(1, "one"))
    await again.turn(write(2, "two"))
    path = again.agent.workspace.root / "a.txt"
    shown, drift = await again.undo(undo(2, 2, files=file("two", "one")))
    assert (drift, path.read_text()) == (Drift("same"), "one")
    assert shown == undo(2, 2, files=file("two", "one"))
    _, drift = await again.undo(redo(2, 2))
    assert drift == Drift("effect", detail="a.txt: changed now, not when recorded")
    assert path.read_text() == "two"
    await again.undo(undo(2, 1, 2))
    assert not path.exists()
    await again.turn(write(3, "three", origin=Place(turn=1)))
    assert again.said == ["write three"]


async def test_a_turn_goes_on_from_its_origin_though_the_undo_was_not_run(again):
    await again.turn(write(1, "one"))
    await again.turn(write(3, "two"))  # the recording's third: the second was not run
    await again.turn(write(4, "four", origin=Place(turn=3)))
    assert again.said == ["write one", "write four"]
    assert again.agent.turns[-1].origin == Place(turn=2)


@pytest.mark.parametrize(
    ("record", "why"),
    [(redo(1, 1), "There is nothing to redo"), (undo(2, 2), "turn 2 was not run before it")],
)
async def test_an_undo_that_cannot_be_done_is_drift(again, record, why):
    await again.turn(write(1, "one"))
    shown, drift = await again.undo(record)
    assert shown == record
    assert drift.kind == "effect"
    assert why in drift.detail


async def test_an_undo_that_drifts_after_something_else_did_says_so(again):
    again.so_far.drifted = True
    _, drift = await again.undo(undo(2, 2))
    assert drift.detail.startswith("after drift: it cannot be done")


async def test_a_question_is_answered_as_it_was_and_no_other(tmp_path):
    said = RecordedCall(id="call00001", name="ask_user", arguments="{}", status="ok", output="in {workspace}")
    not_said = RecordedCall(id="call00002", name="ask_user", arguments="{}", status="error", output="nobody")
    record = turn(1, "ask", steps=(RecordedStep(calls=(said, not_said)),))

    async def person(question: Question) -> str:
        return f"asked {question.text}"

    answer = Rerun(record, tmp_path, approve_recorded=False).answering(person)
    assert await answer(Question("where?", call_id="call00001")) == f"in {tmp_path}"
    assert await answer(Question("why?", call_id="call00002")) == "asked why?"
    assert await answer(Question("who?", call_id="other")) == "asked who?"
