"""Two notebooks that went on from one, joined: turns, the undo between them, cells; and what nbmerge leaves behind."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbdime.merging.notebooks import merge_notebooks as merged_by_nbdime
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.cli import main
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.file_history.patches import patched
from kin_nb.core.session.records import (
    FileChange,
    Place,
    RecordedCall,
    RecordedCompaction,
    RecordedStep,
    UndoRecord,
    sha256,
)
from kin_nb.core.tools.file_changes import _patch
from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.errors import RecordingError, ReplayError
from kin_nb.replay.format.embedded import is_embedding
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.merging.cells import comparable, merge_cells
from kin_nb.replay.merging.notebooks import merge_notebooks
from kin_nb.replay.merging.recordings import merge_recordings
from kin_nb.replay.merging.taking_back import reversed_changes, reversed_patch, take_back
from kin_nb.replay.playback.going_on import go_on
from kin_nb.replay.playback.player import Player
from kin_nb.replay.recording import Recording, WorkspaceMeta
from kin_nb.replay.rerun.drift import Drift
from kin_nb.replay.rerun.turns import Rerun, SoFar
from kin_nb.replay.rerun.undos import undo_again
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import tool_call
from tests.unit.replay.sessions import LONG, recording, turn


def run(*events: str | tuple[str, int], **meta) -> Recording:
    """Turns by their prompts, in cells named after them, and `("undo", n)`, `("redo", n)` of turn n between them."""
    turns, undos = [], []
    for event in events:
        if isinstance(event, str):
            origin = undos[-1].to if undos and undos[-1].at == len(turns) and undos[-1].type == "undo" else None
            turns.append(turn(len(turns) + 1, event, cell_id=event, origin=origin))
        else:
            kind, number = event
            to = Place(turn=number, step=0 if kind == "undo" else -1)
            undos.append(UndoRecord(type=kind, at=len(turns), turns=(number,), to=to))
    return replace(recording(*turns, **meta), undos=tuple(undos))


def said(session: Recording) -> list[str | tuple[str, int, tuple[int, ...]]]:
    """Turns and undos in their order."""
    found: list = []
    for position, each in enumerate(session.turns, 1):
        found.append(each.prompt)
        found += [(undo.type, undo.at, undo.turns) for undo in session.undos if undo.at == position]
    return found


BASE = ("x", "y")
BASE_TURNS = run(*BASE).turns


@pytest.mark.parametrize(
    ("a", "b", "how", "events"),
    [
        ((), (), "same", ["x", "y"]),
        (("p",), (), "a", ["x", "y", "p"]),
        ((), ("q",), "b", ["x", "y", "q"]),
        (("p",), ("p",), "same", ["x", "y", "p"]),
        (("p",), ("p", "q"), "b", ["x", "y", "p", "q"]),
        (("p", "r"), ("p",), "a", ["x", "y", "p", "r"]),
        (("p",), ("q",), "fork", ["x", "y", "p", ("undo", 3, (3,)), "q"]),
        (("p", "r"), ("q", "s"), "fork", ["x", "y", "p", "r", ("undo", 4, (3, 4)), "q", "s"]),
        (("p", "r"), ("p", "s"), "fork", ["x", "y", "p", "r", ("undo", 4, (4,)), "s"]),
        ((("undo", 2),), (), "a", ["x", "y", ("undo", 2, (2,))]),
        (("p", ("undo", 3)), ("q",), "fork", ["x", "y", "p", ("undo", 3, (3,)), "q"]),
        (("p",), ("q", ("undo", 3), "s"), "fork", ["x", "y", "p", ("undo", 3, (3,)), "q", ("undo", 4, (4,)), "s"]),
        (("p",), (("undo", 2), "q"), "fork", ["x", "y", "p", ("undo", 3, (3,)), ("undo", 3, (2,)), "q"]),
        ((("undo", 2), "p"), ("q",), "fork", ["x", "y", "q", ("undo", 3, (3,)), ("undo", 3, (2,)), "p"]),
        ((("undo", 2), ("redo", 2)), ("q",), "fork", ["x", "y", ("undo", 2, (2,)), ("redo", 2, (2,)), "q"]),
    ],
)
def test_what_both_added_is_there_in_an_order_in_which_it_can_have_happened(a, b, how, events):
    merged = merge_recordings(run(*BASE), run(*BASE, *a), run(*BASE, *b))
    assert (merged.how, said(merged.recording)) == (how, events)


@pytest.mark.parametrize(("a", "b"), [(("p",), ("q",)), ((("undo", 2), "p"), ("q",)), (("p", ("undo", 3)), ("q", "s"))])
async def test_a_fork_goes_on_where_the_second_side_ended(a, b, tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path))
    merged = merge_recordings(run(*BASE), run(*BASE, *a), run(*BASE, *b))
    agent = Agent(KinConfig(workdir=tmp_path))
    go_on(agent, merged.recording)
    await agent.aclose()
    last = {"a": b, "b": a}[merged.first]
    prompts = [message.content for message in agent.messages if message.role == "user"]
    assert prompts == (["x", *last[1:]] if isinstance(last[0], tuple) else ["x", "y", *last])


@pytest.mark.parametrize("begins", [{"fresh": True}, {"compaction": RecordedCompaction(summary="before")}])
async def test_what_a_side_cleared_or_compacted_is_not_so_for_the_other(begins, tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path))
    a = run(*BASE, "p", "r")
    a = replace(a, turns=(*BASE_TURNS, a.turns[2].model_copy(update=begins), a.turns[3]))
    agent = Agent(KinConfig(workdir=tmp_path))
    go_on(agent, merge_recordings(run(*BASE), a, run(*BASE, "q")).recording)
    await agent.aclose()
    assert [message.content for message in agent.messages if message.role == "user"] == ["x", "y", "q"]


async def test_a_side_may_go_on_from_within_a_turn_that_was_taken_back_in_part(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path))
    call = RecordedCall(id="c", name="bash", arguments="{}", status="ok", output="done")
    steps = (RecordedStep(content="one", calls=(call,)), RecordedStep(content="two"))
    cut = UndoRecord(at=1, turns=(1,), to=Place(turn=1, step=2))
    base = replace(recording(turn(1, "x", cell_id="x", steps=steps)), undos=(cut,))
    a, b = (replace(base, turns=(*base.turns, turn(2, p, cell_id=p, origin=cut.to))) for p in "pq")
    merged = merge_recordings(base, a, b).recording
    assert said(merged) == ["x", ("undo", 1, (1,)), "p", ("undo", 2, (2,)), "q"]
    agent = Agent(KinConfig(workdir=tmp_path))
    go_on(agent, merged)
    await agent.aclose()
    assert [m.content for m in agent.messages if m.role != "system"] == ["x", "one", "done", "q", "Answer 2."]


def test_turns_of_the_second_side_have_other_numbers_and_say_where_they_go_on_from():
    merged = merge_recordings(run(*BASE), run(*BASE, "p", "r"), run(*BASE, "q", ("undo", 3), "s"))
    assert merged.numbers == {1: 1, 2: 2, 3: 5, 4: 6}
    assert merged.taken_back == (3, 4)
    q, s = merged.recording.turns[4:]
    assert (q.turn, q.origin, s.turn, s.origin) == (5, Place(turn=2, step=-1), 6, Place(turn=5))
    assert merged.recording.undos[1] == UndoRecord(at=5, turns=(5,), to=Place(turn=5))


def test_no_turn_of_a_side_is_changed_but_for_its_place():
    a, b = run(*BASE, "p"), run(*BASE, "q")
    turns = merge_recordings(run(*BASE), a, b).recording.turns
    assert turns[:3] == a.turns
    assert turns[3].model_copy(update={"turn": 3, "origin": None}) == b.turns[2]


def test_a_session_that_goes_on_live_has_another_id_and_is_merged_all_the_same():
    one = run(*BASE)
    ours = replace(run(*BASE, "p"), session="other", meta=one.meta.model_copy(update={"session": "other"}))
    assert merge_recordings(one, one, ours).recording.session == "other"
    assert merge_recordings(one, ours, run(*BASE, "q")).recording.session == "other"
    assert merge_recordings(one, run(*BASE, "q"), ours).recording.session == "other"


def test_what_only_one_side_says_of_the_session_holds():
    merged = merge_recordings(run("x"), run("x", "p"), run("x", "q", tools_sha="a" * 64))
    assert merged.recording.meta.tools_sha == "a" * 64


def test_records_of_a_later_version_are_kept_from_both():
    a, b = (replace(run("x", name), others=(f'{{"type":"{name}"}}', '{"type":"both"}')) for name in "pq")
    assert merge_recordings(run("x"), a, b).recording.other_types == ("both", "p", "q")


@pytest.mark.parametrize(
    ("a", "says"),
    [
        (run("x", "redone"), "A does not go on from BASE: turn 2 of BASE is not what A has there"),
        (run("x"), "A does not go on from BASE: turn 2 of BASE is not there"),
        (run("x", ("undo", 1), "y"), "turn 2 of BASE is not what A has there"),
    ],
)
def test_a_side_that_changed_what_the_base_has_is_named_with_the_turn(a, says):
    with pytest.raises(ReplayError, match=says):
        merge_recordings(run(*BASE), a, run(*BASE, "q"))
    with pytest.raises(ReplayError, match=says.replace("A ", "B ")):
        merge_recordings(run(*BASE), run(*BASE, "q"), a)


def test_a_redacted_turn_is_another_one():
    cut = run(*BASE)
    other = cut.turns[0].model_copy(update={"steps": (RecordedStep(content="[redacted]"),)})
    with pytest.raises(ReplayError, match=r"turn 1 of BASE .*redacted"):
        merge_recordings(cut, replace(cut, turns=(other, *cut.turns[1:])), run(*BASE, "q"))


def test_an_undo_that_a_side_does_not_have_is_named():
    base = run(*BASE, ("undo", 2))
    with pytest.raises(ReplayError, match="the undo after turn 2 of BASE is not there"):
        merge_recordings(base, run(*BASE), base)


def test_sides_that_cannot_follow_each_other_are_an_error():
    a, b = run(*BASE, ("undo", 2), "p"), run(*BASE, ("undo", 1), "q")
    with pytest.raises(ReplayError, match="cannot follow each other"):
        merge_recordings(run(*BASE), a, b)


def test_what_a_side_gave_back_comes_before_what_the_other_added():
    base = (*BASE, ("undo", 2))
    merged = merge_recordings(run(*base), run(*base, "p"), run(*base, ("redo", 2), "q"))
    assert merged.first == "b"
    assert said(merged.recording)[2:] == [("undo", 2, (2,)), ("redo", 2, (2,)), "q", ("undo", 3, (2, 3)), "p"]


def test_a_side_that_went_back_into_a_turn_cannot_follow_another():
    steps = (RecordedStep(content="one"), RecordedStep(content="two"))
    base = recording(turn(1, "x", cell_id="x", steps=steps))
    into = replace(base, undos=(UndoRecord(at=1, turns=(1,), to=Place(turn=1, step=2)),))
    with pytest.raises(ReplayError, match="cannot follow each other"):
        merge_recordings(base, replace(base, turns=(*base.turns, turn(2, "p", cell_id="p"))), into)


def test_a_side_with_more_turns_than_can_be_gone_back_comes_last():
    long = run(*BASE, *(f"p{n}" for n in range(50)))
    short = run(*BASE, "q")
    assert merge_recordings(run(*BASE), long, short).first == "b"
    with pytest.raises(ReplayError, match="50 turns"):
        merge_recordings(run(*BASE), long, run(*BASE, *(f"q{n}" for n in range(50))))


# The undo that takes a side's turns back


def change(before: str | None, after: str | None, path: str = "a.txt") -> FileChange:
    """As a call records it."""
    patch = _patch(path, (before or "").encode(), (after or "").encode())
    if before is None:
        patch = patch and patch.replace("--- a/a.txt", "--- /dev/null")
    return FileChange(
        path=path,
        before=None if before is None else sha256(before),
        after=None if after is None else sha256(after),
        patch=patch,
        before_mode="" if before is None else "100644",
        after_mode="" if after is None else "100644",
    )


def changes(*contents: str | None) -> list[FileChange]:
    return [change(one, other) for one, other in itertools.pairwise(contents)]


LINES = "".join(f"line {n}\n" for n in range(30))


@pytest.mark.parametrize(
    "contents",
    [
        (LINES, LINES.replace("line 9\n", "nine\n")),
        (LINES, LINES.replace("line 9\n", "nine\n"), LINES.replace("line 9\n", "nine\n").replace("line 20\n", "")),
        (LINES, f"new\n{LINES}", f"new\n{LINES}end"),
        (None, "made\n", "made\nmore\n"),
        (None, "no newline"),
        ("gone\n", None),
        (LINES, LINES.removesuffix("\n"), f"{LINES}more"),
        ("", "x\n", "x\ny\n"),
        (LINES, "", LINES.upper()),
        ("a\x0cb\u2028c\n", "a\x0cb\u2028d\n"),
    ],
)
def test_a_patch_takes_back_what_several_did_though_nobody_has_the_file(contents):
    made = changes(*contents)
    patch = reversed_patch(made)
    assert patch is not None
    assert patched(contents[-1] or "", patch) == (contents[0] or "")


def test_so_it_does_whatever_the_changes_were():
    chance = random.Random(6)
    for _ in range(300):
        contents = ["".join(f"{chance.choice('abcd')}{n}\n" for n in range(chance.randrange(40)))]
        for _ in range(chance.randrange(1, 4)):
            lines = contents[-1].splitlines(keepends=True)
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(lines) + 1)
                lines[at : at + chance.randrange(3)] = [f"new{chance.random()}\n"] * chance.randrange(3)
            contents.append("".join(lines).removesuffix("\n" if chance.random() < 0.1 else ""))
            if not contents[-1].endswith("\n"):
                break
        patch = reversed_patch(changes(*contents))
        assert patch is not None, contents
        assert patched(contents[-1], patch) == contents[0]


def test_a_change_without_text_has_a_way_back_without_text():
    (back,) = reversed_changes([change("a\n", "b\n"), change("b\n", None).model_copy(update={"patch": None})])
    assert (back.before, back.after, back.patch) == (None, sha256("a\n"), None)
    (back,) = reversed_changes([change("a\0", "b\0")])
    assert (back.before, back.after, back.patch) == (sha256("b\0"), sha256("a\0"), None)


def test_a_file_that_came_back_to_what_it_was_needs_no_way_back():
    assert list(reversed_changes(changes("a\n", "b\n", "a\n"))) == []


def test_modes_come_back_and_so_does_what_was_made():
    made = change("a\n", "a\n").model_copy(update={"after_mode": "100755"})
    (back,) = reversed_changes([made])
    assert (back.before_mode, back.after_mode, back.patch) == ("100755", "100644", "")


@pytest.mark.parametrize(
    ("patch", "back"),
    [
        ("--- a\n+++ b\n@@ -999999999,1 +1 @@\n-x\n+y\n", None),
        ("@@ nonsense", ""),
        ("-", ""),
        ("--- a\n+++ b\n@@ -5 +5 @@\n", ""),
    ],
)
def test_a_patch_that_makes_no_sense_costs_nothing_and_takes_nothing_back(patch, back):
    assert reversed_patch([change("a\n", "b\n").model_copy(update={"patch": patch})]) == back


@pytest.fixture
def model(model_server, tmp_path, monkeypatch):
    """Agents in `work`, that may do everything, at a scripted model server."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text(LINES)
    (folder / "b.txt").write_text("b\n")
    config = KinConfig(
        workdir=folder,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=model_server.url)],
        models=[ModelConfig(name="m", provider="p")],
    )
    return model_server, config, folder


def tree(folder: Path) -> dict[str, tuple[str, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_text(), path.stat().st_mode & 0o777) for path in sorted(files)}


async def ask(server, agent: Agent, prompt: str, *commands: str) -> None:
    server.enqueue(calls=[tool_call("bash", command=command) for command in commands])
    server.enqueue(f"Did {prompt}.")
    async for _ in agent.act(prompt):
        pass
    assert [(call.output, call.exit) for call in agent.turns[-1].calls if call.exit] == []


async def test_the_undo_is_the_one_that_an_agent_would_have_made(model):
    server, config, folder = model
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    await ask(server, agent, "begin", "echo begun > begun.txt")
    before = tree(folder)
    await ask(server, agent, "one", "sed -i.bak 's/line 3$/three/' a.txt; rm a.txt.bak", "mkdir d; echo new > d/e.txt")
    await ask(server, agent, "two", "rm b.txt; chmod +x a.txt; echo more >> d/e.txt", "printf x >> a.txt")
    made = take_back(agent.turns[1:], 3)
    undone = await agent.undo(2)
    await agent.aclose()
    assert tree(folder) == before
    assert made.files == undone.files
    # Its place among the records (id, parent, ancestors, order) is given when it is put below them.
    place = {"id": "", "parent": None, "head": None, "seq": 0, "ancestors": ()}
    assert made == undone.model_copy(update=place)


@pytest.fixture
async def parted(model, tmp_path) -> tuple[list[Recording], dict[str, tuple[str, int]]]:
    """Real sessions, base, a and b, and what b left in `work`, where everything is as before them."""
    server, config, folder = model
    begun = Agent(config, AgentMode.AUTO_APPROVE)
    shutil.copytree(folder, tmp_path / "start")
    await ask(server, begun, "begin", "echo begun > begun.txt")
    shutil.copytree(folder, tmp_path / "parted")
    runs = [begun.turns]
    for prompts in (("one", "two"), ("three",)):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "parted", folder)
        agent = Agent(config, AgentMode.AUTO_APPROVE)
        agent.continue_from(begun.turns)
        for prompt in prompts:
            await ask(server, agent, prompt, f"echo {prompt} >> a.txt; echo {prompt} > {prompt}.txt; rm -f b.txt")
        runs.append(agent.turns)
        await agent.aclose()
    await begun.aclose()
    left = tree(folder)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "start", folder)
    return [recording(*turns, workspace=WorkspaceMeta(path="work")) for turns in runs], left


async def test_a_fork_of_real_sessions_runs_again_and_comes_out_as_its_second_side_did(parted, model):
    (base, a, b), left = parted
    merged, folder = merge_recordings(base, a, b).recording, model[2]
    again, so_far = Agent(KinConfig(workdir=folder, policy="yolo")), SoFar()
    for position, each in enumerate(merged.turns, 1):
        known = again.history.call_ids
        rerun = Rerun(each, again.workspace.root, approve_recorded=True, known_ids=known, so_far=so_far)
        rerun.prepare(again)
        async for _ in again.act(rerun.prompt):
            pass
        for undo in (undo for undo in merged.undos if undo.at == position):
            assert (await undo_again(again, undo, so_far))[1] == Drift("same")
    await again.aclose()
    assert tree(folder) == left
    assert [m.content for m in again.messages if m.role == "user"] == ["begin", "three"]


@pytest.mark.long
@pytest.mark.kernel
def test_a_merged_notebook_replays_its_tools_too(parted, kin, tmp_path):
    for name, made in zip(("base", "a", "b"), parted[0], strict=True):
        (tmp_path / f"{name}.ipynb").unlink()
        write_notebook(session_notebook(made), tmp_path / f"{name}.ipynb")
    assert kin("merge", *NAMES)[0] == 0
    for how in ([], ["--tools", "--approve", "recorded"]):
        code, out, err = kin("replay", *how, "a.merged.ipynb")
        assert (code, err) == (0, ""), out
    assert "Every tool call and undo came out as it was recorded." in out


# Cells


def notebook(*sources: str, **metadata):
    """`id=source`, `# ...` for Markdown; without an id, the source is the id."""
    cells = []
    for source in sources:
        name, _, text = source.partition("=") if "=" in source else ("", "", source)
        make = new_markdown_cell if text.startswith("#") else new_code_cell
        cells.append(make(text, id=name or text.strip("# ")))
    return new_notebook(cells=cells, metadata=metadata)


def joined(base, a, b) -> list[str]:
    merged = merge_cells(*(comparable(notebook(*cells)) for cells in (base, a, b)))
    nbformat.validate(merged.nb | {"nbformat_minor": 5})
    return [cell["source"].replace("**Merged:**", "!").partition(" ")[0] for cell in merged.nb["cells"]]


@pytest.mark.parametrize(
    ("base", "a", "b", "cells"),
    [
        ("x y", "x y", "x y", "x y"),
        ("x y", "x p y", "x y q", "x p y q"),
        ("x y", "x y p", "x y q", "x y p q"),
        ("x y", "x p1 p2 y", "x q1 q2 y", "x p1 p2 q1 q2 y"),
        ("x y", "p x y", "q x y", "p q x y"),
        ("x y", "x y p", "x y p", "x y p"),
        ("x y z", "x z", "x y z", "x z"),
        ("x y z", "x y z", "x z", "x z"),
        ("x y z", "x z", "x z", "x z"),
        ("x y z", "x z", "x n=y z", "x z n y"),
        ("", "p", "q", "p q"),
        ("x y", "y x", "x y", "y x"),
        ("i=x", "i=p", "i=x", "p"),
        ("i=x", "i=x", "i=q", "q"),
        ("i=x", "i=p", "i=p", "p"),
        ("i=x", "i=p", "i=q", "! p q"),
        ("i=x", "i=p", "", "! p"),
        ("i=x", "", "i=q", "! q"),
        ("1=x 2=y", "1=p 2=x 3=y", "1=x 2=y", "p x y"),
        ("x", "x 2=p", "x 2=q", "x p q"),
    ],
)
def test_cells_are_joined_and_nothing_is_lost(base, a, b, cells):
    if (base, b) == ("x y z", "x n=y z"):
        cells = "x z"  # the same text under another id is the same cell, and A removed it
    assert joined(base.split(), a.split(), b.split()) == cells.split()


def test_whatever_happens_to_cells_no_text_that_a_side_wrote_is_lost():
    chance = random.Random(7)
    for _ in range(200):
        base = [f"{n}={n}" for n in range(chance.randrange(6))]
        sides = []
        for name in "ab":
            cells = [each if chance.random() < 0.7 else each.replace("=", f"={name}") for each in base]
            cells = [each for each in cells if chance.random() < 0.8]
            for _ in range(chance.randrange(3)):
                new = f"{name}{chance.randrange(10**6)}"
                cells.insert(chance.randrange(len(cells) + 1), new)
            sides.append(cells)
        texts = [{each.partition("=")[2] or each for each in cells} for cells in (base, *sides)]
        found = joined(base, *sides)
        written = (texts[1] | texts[2]) - texts[0]
        assert written <= set(found)
        assert len([each for each in found if each != "!"]) == len({each for each in found if each != "!"})
        assert texts[0] & texts[1] & texts[2] <= set(found)


def test_a_cell_has_its_outputs_tags_and_the_notebook_its_settings_from_the_side_that_changed_them():
    base, a, b = (notebook("x", "y", title="t", kernelspec={"name": "k", "display_name": "K"}) for _ in range(3))
    b["cells"][0]["outputs"] = [nbformat.v4.new_output("stream", text="b")]
    a["cells"][1]["outputs"] = [nbformat.v4.new_output("stream", text="a")]
    b["cells"][1]["metadata"]["tags"] = ["slow"]
    a["metadata"]["title"], b["metadata"]["author"] = "of a", "of b"
    del b["metadata"]["kernelspec"]
    nb = merge_cells(comparable(base), comparable(a), comparable(b)).nb
    assert [cell["outputs"][0]["text"] for cell in nb["cells"]] == ["b", "a"]
    assert nb["cells"][1]["metadata"] == {"tags": ["slow"]}
    assert nb["metadata"] == {"title": "of a", "author": "of b"}


# Notebooks


def saved(session: Recording, *cells: tuple[int, str]):
    """With ordinary cells, each `(after which cell, source)`."""
    nb = session_notebook(session)
    for place, source in sorted(cells, reverse=True):
        nb["cells"].insert(place, new_code_cell(source, id=source))
    return session_notebook(session, source_nb=nb)


def sources(nb) -> list[str]:
    return [cell["source"].removeprefix("%%kin\n") for cell in nb["cells"]][1:]


def plays(nb) -> Recording:
    """The notebook's recording, once every cell of it has played what it shows."""
    session = read_recording(nb)
    player, played = Player(session), []
    for cell in nb["cells"]:
        if asked_key(nb, cell) is not None:
            played.append(player.turn(asked_key(nb, cell), cell["id"])[0].turn)
        elif undoes(nb, cell) is not None:
            assert player.undo(undoes(nb, cell), cell["id"])[1].at == len(played)
    assert played == [turn.turn for turn in session.turns]
    nbformat.validate(nb)
    return session


def test_a_forked_notebook_plays_from_the_top():
    base = saved(run("x"), (2, "own"))
    a = saved(run("x", "p"), (2, "own"), (4, "of-a"))
    b = saved(run("x", "q"), (2, "own"), (4, "of-b"))
    merged = merge_notebooks(base, a, b)
    assert sources(merged.nb) == ["x", "own", "p", "%kin undo 1", "of-a", "q", "of-b"]
    session = plays(merged.nb)
    assert [turn.prompt for turn in session.turns] == ["x", "p", "q"]
    assert merged.notes == 0
    assert f"%kin replay {session.name}" in merged.nb["cells"][0]["source"]


def test_a_prompt_that_both_asked_with_other_results_has_a_cell_for_each():
    again = turn(2, "p", cell_id="p", steps=(RecordedStep(content="Otherwise."),))
    a, b = run("x", "p"), replace(run("x"), turns=(*run("x").turns, again))
    nb = merge_notebooks(saved(run("x")), saved(a), saved(b)).nb
    assert sources(nb) == ["x", "p", "%kin undo 1", "p"]
    assert [turn.steps[0].content for turn in plays(nb).turns[1:]] == ["Answer 2.", "Otherwise."]


def test_cells_of_one_id_that_are_two_prompts_are_two_cells():
    a, b = (recording(turn(1, "x", cell_id="c"), turn(2, prompt, cell_id="turn-2")) for prompt in "pq")
    nb = merge_notebooks(saved(recording(turn(1, "x", cell_id="c"))), saved(a), saved(b)).nb
    assert [turn.cell_id for turn in plays(nb).turns] == ["c", "turn-2", "turn-2-1"]


def test_the_side_that_did_not_go_on_may_have_changed_its_own_cells():
    merged = merge_notebooks(saved(run("x")), saved(run("x"), (2, "mine")), saved(run("x", "q")))
    assert sources(merged.nb) == ["x", "mine", "q"]
    plays(merged.nb)


def test_what_a_notebook_was_made_of_two_can_be_merged_again():
    base, a, b = saved(run("x")), saved(run("x", "p")), saved(run("x", "q"))
    first = merge_notebooks(base, a, b).nb
    assert merge_notebooks(a, a, first).merged.how == "b"
    third = run("x", "r")
    again = merge_notebooks(base, first, saved(third))
    assert said(plays(again.nb)) == ["x", "p", ("undo", 2, (2,)), "q", ("undo", 3, (3,)), "r"]


@pytest.mark.parametrize("form", ["portable", "sidecar"])
def test_the_form_of_a_is_the_form_of_what_comes_out(form, tmp_path):
    options = SaveOptions(**{form: True})
    for name, events in {"base": ("x",), "a": ("x", "p"), "b": ("x", "q")}.items():
        long = tuple(t.model_copy(update={"steps": (RecordedStep(content=LONG),)}) for t in run(*events).turns)
        made = session_notebook(replace(run(*events), turns=long), options=options)
        write_notebook(made, tmp_path / f"{name}.ipynb")
    found = merge_notebooks(*(load_notebook(tmp_path / f"{name}.ipynb") for name in ("base", "a", "b")))
    write_notebook(found.nb, tmp_path / "m.ipynb")
    assert (tmp_path / "m.kin.json").exists() == (form == "sidecar")
    nb = load_notebook(tmp_path / "m.ipynb")
    assert any(map(is_embedding, nb["cells"])) == (form == "portable")
    assert [turn.prompt for turn in read_recording(nb).turns] == ["x", "p", "q"]


def test_notebooks_of_the_kin_kernel_are_merged_too():
    def made(*events: str):
        nb = notebook(*events, kernelspec={"name": "kin", "display_name": "Kin", "language": "kin"})
        return session_notebook(run(*events), source_nb=nb)

    merged = merge_notebooks(made("x"), made("x", "p"), made("x", "q"))
    assert [cell["source"] for cell in merged.nb["cells"]][1:] == ["x", "p", "%kin undo 1", "q"]
    plays(merged.nb)


def test_which_notebook_is_damaged_is_said():
    damaged = saved(run("x", "p"))
    damaged["cells"][1]["metadata"]["kin"][0]["prompt"] = "z"
    with pytest.raises(RecordingError, match=r"^B: cell 2, turn 1"):
        merge_notebooks(saved(run("x")), saved(run("x")), damaged)


# What others leave


@pytest.mark.parametrize("same_ids", [True, False])
def test_what_nbdime_could_not_merge_is_named(same_ids, tmp_path, caplog):
    base = saved(recording(turn(1, "x", cell_id="c")))
    a, b = (saved(recording(turn(1, "x", cell_id="c"), turn(2, p, cell_id="d" if same_ids else f"d{p}"))) for p in "pq")
    merged, _ = merged_by_nbdime(base, a, b)
    (tmp_path / "m.ipynb").write_text(nbformat.writes(merged) if same_ids else json.dumps(merged))
    with pytest.raises(RecordingError, match=r"nbmerge left a conflict in cell \d .*kin-nb merge BASE A B"):
        read_recording(load_notebook(tmp_path / "m.ipynb"))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (lambda nb: nb["cells"][1]["metadata"].update(local_metadata={}), "in cell 2 (`local_metadata`)"),
        (lambda nb: nb["metadata"].update({"nbdime-conflicts": {}}), "in the notebook's metadata (`nbdime-conflicts`)"),
        (lambda nb: nb["cells"][1].update(id={"local_id": "a"}), "in cell 2 (`local_id`)"),
        (
            lambda nb: nb["cells"][0].update(source="<<<<<<< local\na\n=======\nb\n>>>>>>> remote"),
            "in cell 1 (`<<<<<<< local`)",
        ),
    ],
)
def test_a_conflict_is_named_where_it_is(where, says):
    nb = saved(run("x"))
    where(nb)
    with pytest.raises(RecordingError) as error:
        read_recording(nb)
    assert says in str(error.value)


def test_text_about_conflicts_is_none():
    nb = saved(run("x"))
    nb["cells"].append(new_markdown_cell("<<<<<<< local\na\n=======\nb\n>>>>>>> remote", id="about"))
    nb["cells"].append(new_code_cell("x = '<<<<<<< local'", id="code"))
    assert read_recording(nb) == read_recording(saved(run("x")))


def test_which_of_the_three_is_no_valid_notebook_is_said():
    base, a, b = (json.loads(json.dumps(saved(run(*events)))) for events in (("x",), ("x", "p"), ("x", "q")))
    b["cells"][0]["metadata"]["tags"] = 5
    with pytest.raises(RecordingError, match=r"^B is not a valid notebook: cell 1, metadata\.tags"):
        merge_notebooks(base, a, b)


@pytest.mark.parametrize("line", ["<<<<<<< local\n", ">>>>>>> remote\n", "<<<<<<< local"])
def test_many_marks_without_a_conflict_are_read(line):
    nb = saved(run("x"))
    nb["cells"].append(new_code_cell(line * 100_000, id="code"))
    assert read_recording(nb) == read_recording(saved(run("x")))


# The command


@pytest.fixture
def kin(monkeypatch, tmp_path, capsys):
    """`kin-nb ARGV...` in a folder with base, a and b: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    for name, events in {"base": ("x",), "a": ("x", "p"), "b": ("x", "q")}.items():
        write_notebook(saved(run(*events)), tmp_path / f"{name}.ipynb")

    def run_it(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(list(argv))
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run_it


NAMES = ("base.ipynb", "a.ipynb", "b.ipynb")


def test_the_command_writes_beside_a_and_says_where(kin, tmp_path):
    before = {name: (tmp_path / name).read_bytes() for name in NAMES}
    code, out, err = kin("merge", *NAMES)
    assert (code, err) == (0, "")
    assert out == (
        f"Merged into {tmp_path / 'a.merged.ipynb'}. Both went on: first turn 2 of A, taken back again, then those of B "
        "(turn 2 is now 3).\n"
    )
    assert len(plays(load_notebook(tmp_path / "a.merged.ipynb")).turns) == 3
    assert {name: (tmp_path / name).read_bytes() for name in NAMES} == before
    (tmp_path / "a.ipynb").rename(tmp_path / "a.kin.ipynb")
    assert kin("merge", "base.ipynb", "a.kin.ipynb", "b.ipynb")[0] == 0
    assert (tmp_path / "a.merged.kin.ipynb").exists()


@pytest.mark.parametrize("out", ["a.ipynb", "b.ipynb", "base.ipynb", "other.ipynb"])
def test_nothing_is_replaced_unless_forced(kin, tmp_path, out):
    if out == "other.ipynb":
        (tmp_path / out).write_text("not a notebook")
    before = (tmp_path / out).read_bytes()
    code, said_, err = kin("merge", *NAMES, "-o", out)
    assert (code, said_) == (1, "")
    assert err == f"{out} exists: nothing was written. Choose another name with -o, or --force it.\n"
    assert (tmp_path / out).read_bytes() == before
    assert kin("merge", *NAMES, "-o", out, "--force")[::2] == (0, "")
    assert len(plays(load_notebook(tmp_path / out)).turns) == 3


def test_cells_to_choose_from_are_said_in_the_exit_code(kin, tmp_path):
    for name, text in (("base", "1"), ("a", "2"), ("b", "3")):
        nb = load_notebook(tmp_path / f"{name}.ipynb")
        nb["cells"].append({"cell_type": "markdown", "id": "m", "source": text, "metadata": {}})
        write_notebook(session_notebook(read_recording(nb), source_nb=nb), tmp_path / f"{name}.ipynb")
    code, out, _ = kin("merge", *NAMES)
    assert code == 3
    assert out.endswith("1 cell was changed by both: search the notebook for **Merged:** and choose.\n")
    assert "=3" not in out


def test_an_error_writes_nothing(kin, tmp_path):
    code, out, err = kin("merge", "a.ipynb", "base.ipynb", "b.ipynb")
    assert (code, out) == (1, "")
    assert "A does not go on from BASE: turn 2 of BASE is not there" in err
    assert kin("merge", *NAMES, "-o", "no/where.ipynb")[::2] == (
        1,
        f"{tmp_path / 'no' / 'where.ipynb'} cannot be written: No such file or directory\n",
    )
    assert kin("merge", *NAMES[:2])[0] == 2
    assert not list(tmp_path.glob("*merged*"))


def test_in_another_folder_the_workspace_is_found_where_it_was(kin, tmp_path):
    for name, events in {"base": ("x",), "a": ("x", "p"), "b": ("x", "q")}.items():
        session = run(*events)
        workspace = session.meta.workspace.model_copy(update={"path": "work"})
        meta = session.meta.model_copy(update={"workspace": workspace})
        write_notebook(saved(replace(session, meta=meta)), tmp_path / f"{name}.ipynb")
    (tmp_path / "out").mkdir()
    assert kin("merge", *NAMES, "-o", "out/m.ipynb")[0] == 0
    assert read_recording(load_notebook(tmp_path / "out" / "m.ipynb")).meta.workspace.path == "../work"


def test_git_merges_with_it(kin, tmp_path, monkeypatch):
    for name, value in {"NAME": "n", "EMAIL": "e@x"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    repository, file = tmp_path / "repository", tmp_path / "repository" / "docs" / "s.ipynb"
    file.parent.mkdir(parents=True)

    def git(*argv: str) -> str:
        done = subprocess.run(["git", *argv], cwd=repository, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(name: str) -> None:
        shutil.copy(tmp_path / f"{name}.ipynb", file)
        git("add", "--all")
        git("commit", "-m", name)

    git("init", "-b", "main")
    git("config", "merge.kin.driver", f"{sys.executable} -m kin_nb.cli merge %O %A %B -o %A --force")
    (repository / ".gitattributes").write_text("*.ipynb merge=kin\n")
    commit("base")
    git("switch", "-c", "other")
    commit("b")
    git("switch", "main")
    commit("a")
    told = git("merge", "other")
    assert "Merged. Both went on: first turn 2 of A" in told
    assert ".merge_file" not in told, "a name that only git knows"
    assert said(plays(load_notebook(file))) == ["x", "p", ("undo", 2, (2,)), "q"]
