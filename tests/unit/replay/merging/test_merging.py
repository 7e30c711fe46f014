"""Two notebooks that went on from one, joined: branches of a conversation, cells; and what nbmerge leaves behind."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace

import nbformat
import pytest
from nbdime.merging.notebooks import merge_notebooks as merged_by_nbdime
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.cli import main
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import ToolResultEvent
from kin_nb.core.modes import AgentMode
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
from kin_nb.replay.cell_keys import command_key, conversation_key
from kin_nb.replay.errors import RecordingError, ReplayError
from kin_nb.replay.format.notebook_codec import raw_records, read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.storage import is_recording_cell
from kin_nb.replay.merging import merge_cells, merge_notebooks, merge_recordings, normalized
from kin_nb.replay.playback.player import Playback, resume_from
from kin_nb.replay.recording import Recording, WorkspaceMeta
from kin_nb.replay.rerun.turn_replayer import RunState, TurnReplayer
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import tool_call
from tests.table import each_row
from tests.unit.replay.sessions import LONG, recording, turn, undo

UNDO, CLEAR = "undo", "clear"


def run(*events: str, **meta) -> Recording:
    """Turns by their prompts, in cells named after them, and `undo` of the last one, `clear` between them.

    The same events after the same ones have one id: they are the same record. Others are another's.
    """
    records: list[SessionRecord] = []
    line: list[SessionRecord] = []
    for n, event in enumerate(events):
        made = {"id": sha256(list(events[: n + 1]))[:16], "seq": n + 1, "cell_id": f"{event}-{n}"}
        before = line[-1].head if line else None
        if event == UNDO:
            to = line[-2] if len(line) > 1 else None
            records.append(undo(line.pop(), to=to, **made))
        elif event == CLEAR:
            records.append(ClearRecord(parent=before, key=command_key("clear"), **made))
            line.clear()
        else:
            number = sum(record.type == "turn" for record in records) + 1
            asked = {**made, "cell_id": event, "ancestors": tuple(record.id for record in reversed(line))}
            line.append(turn(number, event, parent=before, **asked))
            records.append(line[-1])
    return replace(recording(**meta), records=tuple(records))


def said(records) -> list[str]:
    """Turns by their prompts, everything else by what it did."""
    return [record.prompt if record.type == "turn" else record.type for record in records]


def sent(book: Book) -> list[str]:
    """The prompts that a new one comes after."""
    return [turn.prompt for turn in book.conversation(book.head()).turns]


BASE = ("x", "y")


@each_row(
    ("a", "b", "how", "events", "goes_on"),
    [
        ((), (), "same", "", "x y"),
        (("p",), (), "a", "p", "x y p"),
        ((), ("q",), "b", "q", "x y q"),
        (("p",), ("p",), "same", "p", "x y p"),
        (("p",), ("p", "q"), "b", "p q", "x y p q"),
        (("p", "r"), ("p",), "a", "p r", "x y p r"),
        (("p",), ("q",), "fork", "p q", "x y p"),
        (("p", "r"), ("q", "s"), "fork", "p q r s", "x y p r"),
        (("p", "r"), ("p", "s"), "fork", "p r s", "x y p r"),
        (("p",), ("q", "s"), "fork", "p q s", "x y q s"),
        ((UNDO,), (), "a", "undo", "x"),
        (("p", UNDO), ("q",), "fork", "p q undo", "x y"),
        (("p",), ("q", UNDO, "s"), "fork", "p q undo s", "x y s"),
        (("p",), (UNDO, "q"), "fork", "p undo q", "x q"),
        ((UNDO, "p"), ("q",), "fork", "undo q p", "x p"),
        ((CLEAR,), ("q",), "fork", "clear q", ""),
        (("p",), (CLEAR, "q"), "fork", "p clear q", "q"),
    ],
)
def test_all_that_both_added_is_there_and_the_conversation_continues_from_the_last(a, b, how, events, goes_on):
    merged = merge_recordings(run(*BASE), run(*BASE, *a), run(*BASE, *b))
    assert (merged.kind, said(merged.recording.records)) == (how, [*BASE, *events.split()])
    book = Book.of_records(merged.recording.records)
    assert merged.head is not None
    assert merged.head.seq == book.head().seq
    assert [turn.prompt for turn in book.conversation(merged.head).turns] == goes_on.split()


def test_no_record_of_a_side_is_changed():
    a, b = run(*BASE, "p", UNDO), run(*BASE, "q", CLEAR)
    merged = {record.id: record for record in merge_recordings(run(*BASE), a, b).recording.records}
    assert merged == {record.id: record for record in (*a.records, *b.records)}


async def test_an_agent_continues_with_the_branch_that_ends_last(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path))
    merged = merge_recordings(run(*BASE), run(*BASE, "p"), run(*BASE, "q", "s"))
    agent = Agent(KinConfig(workdir=tmp_path))
    resume_from(agent, Book.of_records(merged.recording.records), merged.head)
    await agent.aclose()
    assert [message.content for message in agent.messages if message.role == "user"] == ["x", "y", "q", "s"]


async def test_what_a_side_cleared_or_compacted_is_not_so_for_the_other(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path))
    base = run(*BASE)
    compaction = RecordedCompaction(summary="before", summarised=4)
    compact = CompactRecord(
        id="c" * 16, parent=base.records[-1].head, seq=3, key=command_key("compact"), compaction=compaction
    )
    for a in (run(*BASE, CLEAR), replace(base, records=(*base.records, compact))):
        agent = Agent(KinConfig(workdir=tmp_path))
        merged = merge_recordings(base, a, run(*BASE, "q", "s"))
        resume_from(agent, Book.of_records(merged.recording.records), merged.head)
        await agent.aclose()
        assert [message.content for message in agent.messages if message.role == "user"] == ["x", "y", "q", "s"]


async def test_a_side_may_continue_from_within_a_turn_that_was_undone_in_part(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path))
    call = RecordedCall(id="c", name="bash", arguments="{}", status="ok", output="done")
    whole = turn(1, "x", cell_id="x", steps=(RecordedStep(content="one", calls=(call,)), RecordedStep(content="two")))
    within = Ref(id=whole.id, step=2)
    cut = undo(whole).model_copy(update={"head": within, "ancestors": (whole.id,)})
    base = recording(whole, cut)
    a, b = (
        replace(base, records=(*base.records, turn(n, p, cell_id=p, parent=within, ancestors=(whole.id,), seq=n + 1)))
        for n, p in enumerate("pq", 2)
    )
    merged = merge_recordings(base, a, b)
    assert said(merged.recording.records) == ["x", "undo", "p", "q"]
    agent = Agent(KinConfig(workdir=tmp_path))
    book = Book.of_records(merged.recording.records)
    assert [len(each.steps) for each in book.conversation(merged.head).turns] == [2, 1]
    resume_from(agent, book, merged.head)
    await agent.aclose()
    assert [m.content for m in agent.messages if m.role != "system"] == ["x", "one", "done", "q", "Answer 3."]


def test_what_one_side_took_out_is_out():
    """Its cell was deleted there; what went on from it says which record that was."""
    base = run("x", "y", "z")
    without_y = replace(base, records=(base.records[0], base.records[2]))
    merged = merge_recordings(base, without_y, run("x", "y", "z", "q")).recording
    assert said(merged.records) == ["x", "z", "q"]
    book = Book.of_records(merged.records)
    assert book.conversation(book.head()).missing_ids == (base.records[1].id,)
    assert sent(book) == ["x", "z", "q"]


def test_a_session_that_continues_live_has_another_id_and_is_merged_all_the_same():
    one = run(*BASE)
    ours = replace(run(*BASE, "p"), meta=one.meta.model_copy(update={"session": "other"}))
    assert merge_recordings(one, one, ours).recording.session == "other"
    assert merge_recordings(one, ours, run(*BASE, "q")).recording.session == "other"
    assert merge_recordings(one, run(*BASE, "q"), ours).recording.session == "other"


def test_the_conversation_of_another_session_is_not_what_continues():
    beside = turn(9, "help", id="b" * 16, seq=99)
    one = run(*BASE)
    theirs = replace(one, records=(*one.records, beside), session_names={beside.id: "helper"})
    merged = merge_recordings(one, run(*BASE, "p"), theirs)
    assert merged.recording.session_names == {beside.id: "helper"}
    assert merged.head == run(*BASE, "p").records[-1]


def test_what_only_one_side_says_of_the_session_holds():
    merged = merge_recordings(run("x"), run("x", "p"), run("x", "q", tools_sha="a" * 64))
    assert merged.recording.meta.tools_sha == "a" * 64


def test_records_of_a_later_version_are_kept_from_both():
    a, b = (replace(run("x", name), unknown_records=(f'{{"type":"{name}"}}', '{"type":"both"}')) for name in "pq")
    assert merge_recordings(run("x"), a, b).recording.unknown_types == ("both", "p", "q")


def changed(whole: Recording, n: int, **fields) -> Recording:
    """With record `n` changed."""
    records = [*whole.records]
    records[n] = records[n].model_copy(update=fields)
    return replace(whole, records=tuple(records))


@each_row(
    ("n", "fields", "says"),
    [
        (
            0,
            {"steps": (RecordedStep(fingerprint="f1", content="[redacted]"),)},
            "turn 1 differs in {}.* field steps.1.content",
        ),
        (0, {"prompt": "z"}, "turn 1 differs in {}.* field prompt"),
        (1, {"outcome": "stopped"}, "turn 2 differs in {}.* field outcome"),
        (2, {"turns": (1,)}, "undo differs in {}.* field turns.1"),
        (2, {"head": None}, "undo differs in {}.* field head"),
    ],
)
def test_a_record_that_one_side_changed_is_refused_with_its_field(n, fields, says):
    base = run(*BASE, UNDO)
    other = changed(base, n, **fields)
    for side, sides in {"A": (other, base), "B": (base, other)}.items():
        with pytest.raises(
            ReplayError, match=f"^{says.format(side)}.\nOne was redacted, saved without results, or edited"
        ):
            merge_recordings(base, *sides)


def test_a_record_that_both_added_and_that_differs_is_refused_with_its_field():
    with pytest.raises(ReplayError, match="turn 3 differs in B and A: field cost"):
        merge_recordings(run(*BASE), run(*BASE, "p"), changed(run(*BASE, "p"), 2, cost="1"))


def test_one_id_with_two_kinds_of_records_is_refused():
    clear = ClearRecord(id=run("x", "p").records[1].id, seq=2)
    other = replace(run("x"), records=(*run("x").records, clear))
    with pytest.raises(ReplayError, match="clear differs in B and A: field type"):
        merge_recordings(run("x"), run("x", "p"), other)


def test_which_cell_asked_is_no_difference():
    """Saving may have given it another text, or a name."""
    merged = merge_recordings(run("x"), changed(run("x"), 0, cell_id="elsewhere", key="other"), run("x", "q"))
    assert said(merged.recording.records) == ["x", "q"]


@pytest.fixture
def model(model_server, tmp_path, monkeypatch):
    """Agents in `work`, that may do everything, at a scripted model server."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "b.txt").write_text("b\n")
    config = KinConfig(
        workdir=folder,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=model_server.url)],
        models=[ModelConfig(name="m", provider="p")],
    )
    return model_server, config, folder


async def ask(server, agent: Agent, prompt: str, *commands: str) -> None:
    server.enqueue(calls=[tool_call("bash", command=command) for command in commands])
    server.enqueue(f"Did {prompt}.")
    async for _ in agent.act(prompt):
        pass
    assert [(call.output, call.exit) for call in agent.turns[-1].calls if call.exit] == []


@pytest.fixture
async def parted(model, tmp_path) -> list[Recording]:
    """Real sessions, base, a and b, that worked on different files; in `work` everything is as before them."""
    server, config, folder = model
    begun = Agent(config, AgentMode.AUTO_APPROVE)
    shutil.copytree(folder, tmp_path / "start")
    await ask(server, begun, "begin", "echo begun > begun.txt")
    runs = [begun.records]
    for prompts in (("one", "two"), ("three",)):
        agent = Agent(config, AgentMode.AUTO_APPROVE)
        agent.continue_from(begun.turns)
        for prompt in prompts:
            await ask(server, agent, prompt, f"cat begun.txt; echo {prompt} > {prompt}.txt")
        runs.append(agent.records)
        await agent.aclose()
    await begun.aclose()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "start", folder)
    return [replace(recording(workspace=WorkspaceMeta(path="work")), records=tuple(records)) for records in runs]


async def test_both_branches_of_real_sessions_run_again(parted, model):
    merged, folder = merge_recordings(*parted).recording, model[2]
    again, so_far = Agent(KinConfig(workdir=folder, policy="yolo")), RunState()
    drifts = []
    for each in merged.turns:
        assert so_far.includes(each.parent)
        known = again.history.call_ids
        rerun = TurnReplayer(each, again.workspace.root, approve_recorded=True, known_ids=known, run_state=so_far)
        rerun.prepare(again)
        async for event in again.act(rerun.prompt):
            drifts += [rerun.compare(event.call)[1].kind] if isinstance(event, ToolResultEvent) else []
        so_far.record_turn(each, again.turns[-1])
    await again.aclose()
    assert drifts == ["same"] * 4
    assert [turn.prompt for turn in merged.turns] == ["begin", "one", "three", "two"]
    assert {path.stem for path in folder.iterdir()} == {"a", "b", "begun", "one", "two", "three"}
    line = [turn.prompt for turn in Book.of_records(merged.records).conversation(merged.records[-1]).turns]
    assert [m.content for m in again.messages if m.role == "user"] == line == ["begin", "one", "two"]


@pytest.mark.long
@pytest.mark.kernel
def test_a_merged_notebook_replays_its_tools_too(parted, kin, tmp_path):
    for name, made in zip(("base", "a", "b"), parted, strict=True):
        (tmp_path / f"{name}.ipynb").unlink()
        write_notebook(session_notebook(made), tmp_path / f"{name}.ipynb")
    assert kin("merge", *NAMES)[0] == 0
    for how in ([], ["--tools", "--approve", "recorded"]):
        code, out, err = kin("replay", *how, "a.merged.ipynb")
        assert (code, err) == (0, ""), out
    assert "Every tool call came out as recorded." in out


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
    merged = merge_cells(*(normalized(notebook(*cells)) for cells in (base, a, b)))
    nbformat.validate(merged.nb | {"nbformat_minor": 5})
    return [cell["source"].replace("**Merged:**", "!").partition(" ")[0] for cell in merged.nb["cells"]]


@each_row(
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


@each_row("rounds", [40], long=[400])
def test_whatever_happens_to_cells_no_text_that_a_side_wrote_is_lost(rounds):
    chance = random.Random(7)
    for _ in range(rounds):
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
    nb = merge_cells(normalized(base), normalized(a), normalized(b)).nb
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
    """The notebook's recording, once every cell of it has played what it holds, with ids and without."""
    session = read_recording(nb)
    for has_ids in (True, False):
        playback, shown = Playback(Book.collect(nb)), set()
        for cell in nb["cells"]:
            key = conversation_key(nb, cell)
            if key is not None:
                records, by_another = playback.play(key, cell["id"] if has_ids else None)
                held = {raw["id"] for raw in cell["metadata"]["kin"]["records"]}
                assert not by_another
                assert {record.id for record in records} <= held
                shown |= {record.id for record in records}
    assert shown <= {record.id for record in session.records}
    nbformat.validate(nb)
    return session


def test_a_forked_notebook_keeps_both_branches_and_each_cell_shows_its_own_answer():
    base = saved(run("x"), (2, "own"))
    a = saved(run("x", "p"), (2, "own"), (4, "of-a"))
    b = saved(run("x", "q", "r"), (2, "own"), (4, "of-b"))
    merged = merge_notebooks(base, a, b)
    assert sources(merged.nb) == ["x", "own", "p", "of-a", "q", "r", "of-b"]
    session = plays(merged.nb)
    assert said(session.records) == ["x", "p", "q", "r"]
    assert session == replace(merged.merged.recording, saved_shas=session.saved_shas)
    assert merged.notes == 0
    assert f"%kin replay {session.name}" in merged.nb["cells"][0]["source"]
    book = Book.collect(merged.nb)
    assert book.head() == merged.merged.head == run("x", "q", "r").records[-1]
    assert sent(book) == ["x", "q", "r"]
    for cell in merged.nb["cells"]:
        if conversation_key(merged.nb, cell) is not None:
            own = next(each for source in (a, b) for each in source["cells"] if each["source"] == cell["source"])
            assert cell["outputs"] == own["outputs"]


def test_of_branches_that_are_equally_late_the_upper_cell_continues():
    base = saved(run("x", "y"))
    b = session_notebook(run("x", "y", "q"), source_nb=base)
    b["cells"].insert(2, b["cells"].pop())  # q was asked between x and y
    merged = merge_notebooks(base, saved(run("x", "y", "p")), b)
    assert sources(merged.nb) == ["x", "q", "y", "p"]
    assert merged.merged.head == Book.collect(merged.nb).head()
    assert sent(Book.collect(merged.nb)) == ["x", "y", "q"]


def test_undos_and_clears_of_both_stay_in_their_cells():
    merged = merge_notebooks(saved(run("x")), saved(run("x", "p", UNDO)), saved(run("x", "q", CLEAR)))
    assert sources(merged.nb) == ["x", "p", "%kin undo 1", "q", "%kin clear"]
    assert said(plays(merged.nb).records) == ["x", "p", "q", "undo", "clear"]


def test_a_prompt_that_both_asked_with_other_results_has_a_cell_for_each():
    other = run("x", "p").records[1].model_copy(update={"id": "b" * 16, "steps": (RecordedStep(content="Otherwise."),)})
    a, b = run("x", "p"), replace(run("x"), records=(*run("x").records, other))
    nb = merge_notebooks(saved(run("x")), saved(a), saved(b)).nb
    assert sources(nb) == ["x", "p", "p"]
    assert [turn.steps[0].content for turn in plays(nb).turns[1:]] == ["Answer 2.", "Otherwise."]
    assert [str(cell["outputs"]).count("Otherwise.") > 0 for cell in nb["cells"][2:]] == [False, True]


def test_a_cell_that_both_asked_again_holds_both_answers_and_continues_from_the_one_that_it_shows():
    base = run("x")
    sides = []
    for name in "ab":
        room = undo(base.turns[0], id=name * 16, key=base.turns[0].key, cell_id="x")
        steps = (RecordedStep(content=f"Of {name}."),)
        sides.append(
            replace(
                base, records=(*base.records, room, turn(2, "x", id=f"{name}1" * 8, seq=3, cell_id="x", steps=steps))
            )
        )
    notebooks = (session_notebook(side, source_nb=saved(base)) for side in sides)
    nb = merge_notebooks(saved(base), *notebooks).nb
    assert sources(nb) == ["x"]
    assert len(plays(nb).turns) == 3
    book = Book.collect(nb)
    (cell,) = book.cells
    assert cell.shown[-1] == book.head()
    assert f"Of {book.head().id[0]}." in str(nb["cells"][1]["outputs"])


def test_cells_of_one_id_that_are_two_prompts_are_two_cells():
    base = recording(turn(1, "x", cell_id="c"))
    a, b = (recording(*base.turns, turn(2, each, cell_id="turn-2", id=each * 16)) for each in "ab")
    nb = merge_notebooks(saved(base), saved(a), saved(b)).nb
    assert sources(nb) == ["x", "a", "b"]
    plays(nb)
    assert [cell["id"] for cell in nb["cells"][1:]] == ["c", "turn-2", "turn-2-1"]
    assert [raw["id"] for _, raw in raw_records(nb)] == [base.records[0].id, "a" * 16, "b" * 16]


def test_the_side_that_did_not_continue_may_have_changed_its_own_cells():
    merged = merge_notebooks(saved(run("x")), saved(run("x"), (2, "mine")), saved(run("x", "q")))
    assert sources(merged.nb) == ["x", "mine", "q"]
    plays(merged.nb)


def test_what_a_notebook_was_made_of_two_can_be_merged_again():
    base, a, b = saved(run("x")), saved(run("x", "p")), saved(run("x", "q"))
    first = merge_notebooks(base, a, b).nb
    assert merge_notebooks(a, a, first).merged.kind == "b"
    third = run("x", "r")
    again = merge_notebooks(base, first, saved(third))
    assert said(plays(again.nb).records) == ["x", "p", "q", "r"]
    assert again.merged.kind == "fork"


@pytest.mark.parametrize("form", ["portable", "sidecar"])
def test_the_form_of_a_is_the_form_of_what_comes_out(form, tmp_path):
    options = SaveOptions(**{form: True})
    for name, events in {"base": ("x",), "a": ("x", "p"), "b": ("x", "q")}.items():
        long = tuple(t.model_copy(update={"steps": (RecordedStep(content=LONG),)}) for t in run(*events).turns)
        made = session_notebook(replace(run(*events), records=long), options=options)
        write_notebook(made, tmp_path / f"{name}.ipynb")
    found = merge_notebooks(*(load_notebook(tmp_path / f"{name}.ipynb") for name in ("base", "a", "b")))
    write_notebook(found.nb, tmp_path / "m.ipynb")
    assert (tmp_path / "m.kin.json").exists() == (form == "sidecar")
    nb = load_notebook(tmp_path / "m.ipynb")
    assert any(map(is_recording_cell, nb["cells"])) == (form == "portable")
    assert [turn.prompt for turn in read_recording(nb).turns] == ["x", "p", "q"]


def test_notebooks_of_the_kin_kernel_are_merged_too():
    def made(*events: str):
        nb = notebook(*events, kernelspec={"name": "kin", "display_name": "Kin", "language": "kin"})
        return session_notebook(run(*events), source_nb=nb)

    merged = merge_notebooks(made("x"), made("x", "p"), made("x", "q"))
    assert [cell["source"] for cell in merged.nb["cells"]][1:] == ["x", "p", "q"]
    plays(merged.nb)


def test_which_notebook_is_damaged_is_reported():
    damaged = saved(run("x", "p"))
    damaged["cells"][1]["metadata"]["kin"]["records"][0]["prompt"] = "z"
    with pytest.raises(RecordingError, match=r"^B: cell 2, turn 1"):
        merge_notebooks(saved(run("x")), saved(run("x")), damaged)


# What others leave


@pytest.mark.parametrize("same_ids", [True, False])
def test_what_nbdime_could_not_merge_is_named(same_ids, tmp_path, caplog):
    base = saved(recording(turn(1, "x", cell_id="c")))
    a, b = (saved(recording(turn(1, "x", cell_id="c"), turn(2, p, cell_id="d" if same_ids else f"d{p}"))) for p in "pq")
    merged, _ = merged_by_nbdime(base, a, b)
    (tmp_path / "m.ipynb").write_text(nbformat.writes(merged) if same_ids else json.dumps(merged))
    with pytest.raises(RecordingError, match=r"(?s)nbmerge left a conflict in cell \d .*kin-nb merge BASE A B"):
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


def test_which_of_the_three_is_no_valid_notebook_is_reported():
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
        f"Merged into {tmp_path / 'a.merged.ipynb'}. A and B both have new turns, so the session has two "
        "branches; every cell shows its own answer. The conversation continues after turn 2.\n"
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
    assert err == f"Not merged: {out} exists.\nChoose another name with -o, or use --force.\n"
    assert (tmp_path / out).read_bytes() == before
    assert kin("merge", *NAMES, "-o", out, "--force")[::2] == (0, "")
    assert len(plays(load_notebook(tmp_path / out)).turns) == 3


def test_cells_to_choose_from_are_reported_in_the_exit_code(kin, tmp_path):
    for name, text in (("base", "1"), ("a", "2"), ("b", "3")):
        nb = load_notebook(tmp_path / f"{name}.ipynb")
        nb["cells"].append({"cell_type": "markdown", "id": "m", "source": text, "metadata": {}})
        write_notebook(session_notebook(read_recording(nb), source_nb=nb), tmp_path / f"{name}.ipynb")
    code, out, _ = kin("merge", *NAMES)
    assert code == 3
    assert out.endswith("1 cell was changed in both notebooks: search for **Merged:** in the notebook and choose.\n")
    assert "=3" not in out


def test_an_error_writes_nothing(kin, tmp_path):
    write_notebook(saved(changed(run("x", "p"), 0, message="redacted")), tmp_path / "other.ipynb")
    code, out, err = kin("merge", "base.ipynb", "other.ipynb", "b.ipynb")
    assert (code, out) == (1, "")
    assert "turn 1 differs in A and BASE: field message" in err
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
    assert "Merged. A and B both have new turns, so the session has two branches" in told
    assert ".merge_file" not in told, "a name that only git knows"
    assert said(plays(load_notebook(file)).records) == ["x", "p", "q"]
