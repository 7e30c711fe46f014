"""`kin-nb save`: what goes in, what comes out, and what is said."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.cli.main import main
from kin_nb.core.session.records import Place, UndoRecord
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import NoRecordingError, RecordingError, ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.recording import Recording, SessionMeta, WorkspaceMeta
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import carried_of, recording, turn

TALK = recording(turn(1, "first ACME-1"), turn(2, "second"), workspace=WorkspaceMeta(path="work"))


@pytest.fixture
def saved(tmp_path):
    """Writes a session notebook after `change`."""

    def saved(change=lambda nb: None, name: str = "talk.ipynb") -> Path:
        nb = session_notebook(TALK)
        change(nb)
        return write_notebook(nb, tmp_path / name)

    return saved


@pytest.fixture
def lived(tmp_path) -> Path:
    """A notebook as a front end saves it: no records in its metadata, one in the last output of each turn."""
    cells = [
        new_code_cell(
            f"%%kin\n{each.prompt}",
            id=f"c{each.turn}",
            outputs=[new_output("display_data", {"text/plain": "x"}, metadata=carried_of(TALK, each))],
        )
        for each in TALK.turns
    ]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[new_code_cell("x = 1", id="own"), *cells])))
    return path


def redrawn(path: Path):
    out = path.with_name("again.ipynb")
    SaveCommand(str(path), out).run()
    return load_notebook(out)


def test_outputs_are_drawn_anew_from_the_recording_alone(saved):
    def spoil(nb):
        nb["cells"][1]["outputs"][0]["data"]["text/html"] = "<script>alert(1)</script>"
        nb["cells"][2]["outputs"] = []

    fresh = load_notebook(saved(name="fresh.ipynb"))
    nb = redrawn(saved(spoil))
    assert read_recording(nb) == read_recording(fresh)
    assert [cell["outputs"] for cell in nb["cells"]] == [cell["outputs"] for cell in fresh["cells"]]
    assert "<script>" not in str(nb)
    assert "Answer 2." in str(nb["cells"][2]["outputs"])


def test_a_prompt_that_would_stop_a_replay_is_said(saved, tmp_path):
    path = saved()
    assert not any("a replay stops" in line for line in SaveCommand(str(path), tmp_path / "a.ipynb").run())
    raw = json.loads(path.read_text())
    raw["cells"].append(new_code_cell("%%kin\nnever run", id="draft"))
    path.write_text(json.dumps(raw))
    said = SaveCommand(str(path), tmp_path / "b.ipynb").run()
    assert "Cell 4 has no answer in this recording, and a replay stops there. Run or remove it, and save again." in said


def test_a_changed_recording_is_not_drawn_anew(saved):
    def tamper(nb):
        nb["cells"][1]["metadata"]["kin"][0]["prompt"] = "other"

    with pytest.raises(RecordingError, match=r"talk\.ipynb: cell 2, turn 1"):
        redrawn(saved(tamper))


def test_a_notebook_without_a_recording_says_how_to_get_one_back(saved):
    with pytest.raises(RecordingError, match="kin-nb save 5b1c-session"):
        redrawn(saved(lambda nb: nb["metadata"].pop("kin")))


def test_a_notebook_written_elsewhere_finds_its_workspace(saved, tmp_path):
    (tmp_path / "other").mkdir()
    SaveCommand(str(saved()), tmp_path / "other" / "talk.ipynb").run()
    assert read_recording(load_notebook(tmp_path / "other" / "talk.ipynb")).meta.workspace.path == "../work"


def test_the_outputs_of_a_front_ends_notebook_become_records_and_the_rest_stays(lived, capsys):
    assert main(["save", str(lived), "--from-outputs"]) == 0
    nb = load_notebook(lived.with_name("mine.kin.ipynb"))
    assert [turn.prompt for turn in read_recording(nb).turns] == ["first ACME-1", "second"]
    assert "x = 1" in [cell["source"] for cell in nb["cells"]]
    assert "Saved mine.kin.ipynb: recording 5b1c-session@" in capsys.readouterr().out


def lived_cell(session: str, prompt: str, number: int = 1, options: str = ""):
    """A prompt that was answered, as a front end saves it."""
    meta, cell_id = SessionMeta(session=session, model="m"), f"{session}-{number}"
    record = turn(number, prompt, cell_id=cell_id, options=options)
    output = new_output("display_data", {"text/plain": "x"}, metadata=carried(record, meta, [record]))
    return new_code_cell(f"%%kin {options}".rstrip() + f"\n{prompt}", id=cell_id, outputs=[output])


@pytest.fixture
def restarted(tmp_path) -> Path:
    """The kernel was restarted after the second cell, and a conversation with a name followed."""
    cells = [
        lived_cell("aaaaaaaa-1", "first"),
        new_code_cell("x = 1", id="own"),
        lived_cell("bbbbbbbb-2", "second"),
        new_code_cell("%kin mode plan", id="mode"),
        lived_cell("cccccccc-3", "check it", options="--session review"),
        lived_cell("bbbbbbbb-2", "third", 2),
        new_code_cell("%%kin\nnever run", id="asleep"),
    ]
    path = tmp_path / "my talk.ipynb"
    path.write_text(json.dumps(new_notebook(cells=cells)))
    return path


def test_of_several_sessions_each_is_named_with_its_cells_and_the_command_that_saves_it(restarted, capsys):
    assert main(["save", str(restarted), "--from-outputs"]) == 1
    head, *lines = capsys.readouterr().err.splitlines()
    assert head == "my talk.ipynb holds turns of 3 sessions, and a session notebook holds one. Save each by itself:"
    assert [line.partition(": ")[0] for line in lines] == ["cell 1", "cell 3, 6", "cell 5"]
    for line in lines:
        assert main(shlex.split(line.partition(": ")[2])[1:]) == 0
    made = {path.name: load_notebook(path) for path in restarted.parent.glob("*.kin.ipynb")}
    prompts = {name: [turn.prompt for turn in read_recording(nb).turns] for name, nb in made.items()}
    assert prompts == {
        "my talk.aaaaaaaa.kin.ipynb": ["first"],
        "my talk.bbbbbbbb.kin.ipynb": ["second", "third"],
        "my talk.cccccccc.kin.ipynb": ["check it"],
    }


def test_the_session_that_is_chosen_keeps_what_can_be_played_and_the_rest_is_said(restarted, tmp_path):
    said = SaveCommand(str(restarted), tmp_path / "b.ipynb", from_outputs=True, session="bbbb").run()
    cells = load_notebook(tmp_path / "b.ipynb")["cells"]
    assert [cell["source"] for cell in cells[1:]] == ["x = 1", "%%kin\nsecond", "%%kin\nthird"]
    assert "Left out: 1 prompt without an answer in this session." in said
    assert any(line.startswith("Left out: 1 prompt of session aaaaaaaa-1: kin-nb save") for line in said)


@pytest.mark.parametrize("path", [False, True])
def test_in_place_deletes_no_prompt_of_another_session_and_none_without_an_answer(restarted, path):
    before = restarted.read_bytes()
    command = SaveCommand(
        str(restarted), restarted if path else None, SaveOptions(in_place=True), from_outputs=True, session="bbbb"
    )
    with pytest.raises(RecordingError, match="--in-place would delete") as error:
        command.run()
    for cell in ("cell 1 (%%kin ⏎ first)", "cell 5 (%%kin --session review ⏎ check it)", "cell 7 (%%kin ⏎ never run)"):
        assert cell in str(error.value)
    assert "cell 4" not in str(error.value)
    assert restarted.read_bytes() == before
    raw = json.loads(restarted.read_text())
    raw["cells"] = [cell for cell in raw["cells"] if cell["id"] in {"bbbbbbbb-2-1", "bbbbbbbb-2-2", "own", "mode"}]
    restarted.write_text(json.dumps(raw))
    assert "Left out: cell 3 (%kin mode plan)." in command.run()
    cells = load_notebook(restarted)["cells"]
    assert [cell["source"] for cell in cells[1:]] == ["x = 1", "%%kin\nsecond", "%%kin\nthird"]
    assert list(restarted.parent.iterdir()) == [restarted]


def test_in_place_writes_no_other_file(restarted, lived):
    before = lived.read_bytes()
    with pytest.raises(
        ReplayError, match=r"^--in-place writes .*my talk\.ipynb itself\. Leave out .*mine\.ipynb, or leave"
    ):
        SaveCommand(str(restarted), lived, SaveOptions(in_place=True), from_outputs=True, session="bbbb").run()
    assert lived.read_bytes() == before


def test_a_session_with_a_name_takes_its_own_prompts_and_no_others(restarted, tmp_path):
    SaveCommand(str(restarted), tmp_path / "c.ipynb", from_outputs=True, session="cccccccc-3").run()
    cells = load_notebook(tmp_path / "c.ipynb")["cells"]
    assert [cell["source"] for cell in cells[1:]] == ["x = 1", "%%kin --session review\ncheck it"]


def test_a_session_that_the_outputs_do_not_hold_lists_those_that_they_do(restarted, tmp_path):
    with pytest.raises(RecordingError, match="of 3 sessions, and 0 of them begin with dddd") as error:
        SaveCommand(str(restarted), tmp_path / "d.ipynb", from_outputs=True, session="dddd").run()
    assert str(error.value).count("--from-outputs --session") == 3
    with pytest.raises(ReplayError, match="--session chooses what --from-outputs takes"):
        SaveCommand(str(restarted), tmp_path / "d.ipynb", session="aaaa").run()
    assert not (tmp_path / "d.ipynb").exists()


def test_from_outputs_needs_a_notebook_that_carries_something(lived, tmp_path):
    with pytest.raises(ReplayError, match="takes a notebook"):
        SaveCommand("5b1c", tmp_path / "a.ipynb", from_outputs=True).run()
    lived.write_text(json.dumps(new_notebook(cells=[new_code_cell("1", id="a")])))
    with pytest.raises(NoRecordingError, match="outputs were cleared"):
        SaveCommand(str(lived), from_outputs=True).run()


def test_what_is_taken_out_is_said_and_secrets_go_always(saved, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")

    def type_a_secret(nb):
        nb["cells"].append(new_code_cell("login('hunter2hunter2')", id="typed"))

    path, out = saved(type_a_secret), tmp_path / "out.ipynb"
    assert main(["save", str(path), str(out), "--redact", r"ACME-\d", "--no-results"]) == 0
    said = capsys.readouterr().out
    assert "Taken out:" in said
    assert re.search(r"turn 1, prompt: 1 match of ACME", said)
    assert re.search(r"cell 4: 1 secret", said)
    assert "hunter2" not in out.read_text() + said
    assert "ACME-1" not in out.read_text()


def test_an_existing_file_is_not_written_over_by_a_plain_export(saved, tmp_path):
    plain = SaveOptions(plain=True)
    said = SaveCommand(str(saved()), options=plain).run()
    assert said == ["Saved talk.plain.ipynb: it needs no kin_nb, and holds no recording."]
    assert "kin" not in load_notebook(tmp_path / "talk.plain.ipynb")["metadata"]
    with pytest.raises(ReplayError, match=r"talk\.plain\.ipynb exists"):
        SaveCommand(str(tmp_path / "talk.ipynb"), options=plain).run()


def test_a_file_that_cannot_be_written_is_named(saved, tmp_path, capsys):
    assert main(["save", str(saved()), str(tmp_path / "no" / "x.ipynb")]) == 1
    assert capsys.readouterr().err.endswith("x.ipynb cannot be written: No such file or directory\n")


def test_a_notebook_that_is_not_valid_is_named_with_its_cell(saved, capsys):
    path = saved()
    nb = json.loads(path.read_text())
    nb["cells"][0]["metadata"]["tags"] = 5
    path.write_text(json.dumps(nb))
    assert main(["save", str(path), str(path.with_name("again.ipynb"))]) == 1
    assert "talk.ipynb is not a valid notebook: cell 1, metadata.tags: 5 is" in capsys.readouterr().err
    assert not path.with_name("again.ipynb").exists()


def test_in_place_is_refused_while_a_server_has_the_file_open(saved, tmp_path, monkeypatch):
    path = saved()
    monkeypatch.setattr("kin_nb.replay.saving.open_notebooks.open_in", lambda _: "http://127.0.0.1:8888/")
    with pytest.raises(RecordingError, match=r"is open in http://127\.0\.0\.1:8888/, whose next save would erase"):
        SaveCommand(str(path), path, SaveOptions(in_place=True)).run()


def went_on(session: str, *turns, undos=()) -> Recording:
    """What a kernel's session has recorded that went on where TALK ends."""
    meta = TALK.meta.model_copy(update={"session": session, "kin_nb": "0.2.0"})
    return Recording(session, (*TALK.turns, *turns), meta, undos=undos)


def asked_live(whole: Recording, number: int, prompt: str, cell_id: str, after: str = TALK.session):
    metadata = carried_of(whole, whole.turns[number - 1], 0, after)
    output = new_output("display_data", {"text/plain": "x"}, metadata=metadata)
    return new_code_cell(f"%%kin\n{prompt}", id=cell_id, outputs=[output])


def typed(path: Path, *cells) -> Path:
    """As a front end saves it, with these cells at the end."""
    nb = json.loads(path.read_text())
    nb["cells"].extend(cells)
    path.write_text(json.dumps(nb))
    return path


GONE_ON = went_on("live-1", turn(3, "third", cell_id="c3"))


@pytest.fixture
def gone_on(saved):
    """A session notebook in which somebody went on after playback, as a front end saves it; `%kin save` gives GONE_ON."""
    return typed(
        saved(),
        new_code_cell("x = 1", id="own"),
        asked_live(GONE_ON, 3, "third", "c3"),
        new_code_cell("%kin cost", id="cost"),
        new_code_cell("%%kin\na draft", id="draft"),
    )


@pytest.mark.parametrize("arguments", [[], ["--from-outputs"], ["--from-outputs", "--session", "live-1"]])
def test_what_was_asked_after_playback_is_saved_with_what_came_before_it(gone_on, tmp_path, arguments, capsys):
    out = tmp_path / "out.ipynb"
    assert main(["save", str(gone_on), str(out), *arguments]) == 0
    found = read_recording(load_notebook(out))
    assert found == replace(GONE_ON, turns=found.turns)
    assert [each.model_copy(update={"cell_id": None}) for each in found.turns] == [
        each.model_copy(update={"cell_id": None}) for each in GONE_ON.turns
    ]
    assert [cell["source"] for cell in load_notebook(out)["cells"]][1:] == [
        "%%kin\nfirst ACME-1",
        "%%kin\nsecond",
        "x = 1",
        "%%kin\nthird",
    ]
    assert "Left out: 1 prompt without an answer in this session." in capsys.readouterr().out


def test_it_may_be_written_onto_itself_once_no_draft_would_go(gone_on):
    with pytest.raises(RecordingError, match=r"holds 1 cell .* It is: %%kin ⏎ a draft\."):
        SaveCommand(str(gone_on), gone_on).run()
    nb = json.loads(gone_on.read_text())
    nb["cells"].pop()
    gone_on.write_text(json.dumps(nb))
    SaveCommand(str(gone_on), gone_on).run()
    assert len(read_recording(load_notebook(gone_on)).turns) == 3


def test_each_time_that_it_went_on_is_in_there(saved, tmp_path):
    more = Recording(
        "live-2",
        (*GONE_ON.turns, turn(4, "fourth", cell_id="c4")),
        GONE_ON.meta.model_copy(update={"session": "live-2"}),
    )
    cells = [asked_live(GONE_ON, 3, "third", "c3"), asked_live(more, 4, "fourth", "c4", after="live-1")]
    SaveCommand(str(typed(saved(), *cells)), tmp_path / "out.ipynb").run()
    assert read_recording(load_notebook(tmp_path / "out.ipynb")).digest == more.digest


def test_an_undo_after_playback_is_in_there_too(saved, tmp_path):
    undo = UndoRecord(at=2, turns=(2,), to=Place(turn=1, step=-1))
    whole = went_on("live-1", turn(3, "again", cell_id="c3", origin=Place(turn=1, step=-1)), undos=(undo,))
    card = new_output("display_data", {"text/plain": "x"}, metadata=carried_of(whole, undo, 1, TALK.session))
    cells = [new_code_cell("%kin undo", id="u", outputs=[card]), asked_live(whole, 3, "again", "c3")]
    SaveCommand(str(typed(saved(), *cells)), tmp_path / "out.ipynb").run()
    found = load_notebook(tmp_path / "out.ipynb")
    assert read_recording(found).digest == whole.digest
    assert [cell["source"] for cell in found["cells"]][1:] == [
        "%%kin\nfirst ACME-1",
        "%%kin\nsecond",
        "%kin undo 1",
        "%%kin\nagain",
    ]


@pytest.mark.parametrize("from_outputs", [False, True])
@pytest.mark.parametrize("number", [1, 5])
def test_what_does_not_follow_is_left_out_and_that_is_said(saved, tmp_path, number, from_outputs):
    path = typed(saved(), lived_cell("other-1", "else", number))
    told = SaveCommand(str(path), tmp_path / "out.ipynb", from_outputs=from_outputs).run()
    assert not [line for line in told if "stops there" in line]
    (said,) = [
        line for line in told if line.startswith("Left out: turns that only outputs carry, and that do not follow")
    ]
    assert said.endswith(f". Save them: kin-nb save {path} OUT.ipynb --from-outputs --session other-1")
    assert [each.turn for each in read_recording(load_notebook(tmp_path / "out.ipynb")).turns] == [1, 2]
    SaveCommand(str(path), tmp_path / "own.ipynb", from_outputs=True, session="other").run()
    assert [each.turn for each in read_recording(load_notebook(tmp_path / "own.ipynb")).turns] == [number]


def test_a_save_warns_of_what_the_paired_text_would_lose(lived, tmp_path):
    nb = json.loads(lived.read_text())
    nb["metadata"]["jupytext"] = {"formats": "ipynb,py:nomarker"}
    lived.write_text(json.dumps(nb))
    said = SaveCommand(str(lived), tmp_path / "out.ipynb", from_outputs=True).run()
    assert [line for line in said if line.startswith("jupytext pairs this notebook with py:nomarker:")]


@pytest.fixture
def two_chained(tmp_path) -> Path:
    """What a front end saved of two sessions: turns 1 and 2 of the first, turn 3 of the one that went on from it."""
    cells = [
        new_code_cell(
            f"%%kin\n{each.prompt}",
            id=f"c{each.turn}",
            outputs=[new_output("display_data", {"text/plain": "x"}, metadata=carried_of(TALK, each))],
        )
        for each in TALK.turns
    ]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[*cells, asked_live(GONE_ON, 3, "third", "c3")])))
    return path


def carried_record(nb: Any, cell: int) -> dict[str, Any]:
    return nb["cells"][cell - 1]["outputs"][0]["metadata"]["kin_recording"]["record"]


def edit(path: Path, cell: int, change) -> Path:
    """Change the record that the output of `cell` (from 1) carries, as an editor would."""
    nb = json.loads(path.read_text())
    change(carried_record(nb, cell))
    path.write_text(json.dumps(nb))
    return path


def other_reply(record):
    record["steps"][0]["content"] = "Another answer."


def other_number(record):
    record["turn"] += 4


def other_type(record):
    record["type"] = "tern"


EDITS = {
    "reply": (other_reply, "cell {cell}, turn {turn}, step 1: its reply or one of its tool calls was changed"),
    "prompt": (lambda record: record.update(prompt="else"), "cell {cell}, turn {turn}: it was changed"),
    "number": (other_number, "cell {cell}, turn {moved}: it was changed"),
    "type": (other_type, "cell {cell}, record 'tern': it was changed"),
}


@pytest.mark.parametrize("session", [[], ["--session", "live-1"]], ids=["all", "named"])
@pytest.mark.parametrize("cell", [1, 2, 3])
@pytest.mark.parametrize("change", EDITS)
def test_an_edited_record_of_chained_sessions_is_refused_and_named(
    two_chained, tmp_path, capsys, change, cell, session
):
    out = tmp_path / "out.ipynb"
    assert main(["save", str(two_chained), str(out), "--from-outputs", *session]) == 0
    out.unlink()
    how, message = EDITS[change]
    assert main(["save", str(edit(two_chained, cell, how)), str(out), "--from-outputs", *session]) == 1
    assert message.format(cell=cell, turn=cell, moved=cell + 4) in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("arguments", [[], ["--from-outputs"], ["--from-outputs", "--session", "live-1"]])
@pytest.mark.parametrize("change", EDITS)
def test_an_edited_record_after_a_saved_recording_is_refused_and_named(gone_on, tmp_path, capsys, change, arguments):
    how, message = EDITS[change]
    number = next(n for n, cell in enumerate(json.loads(gone_on.read_text())["cells"], 1) if cell["id"] == "c3")
    edit(gone_on, number, how)
    assert main(["save", str(gone_on), str(tmp_path / "out.ipynb"), *arguments]) == 1
    assert message.format(cell=number, turn=3, moved=7) in capsys.readouterr().err
    assert not (tmp_path / "out.ipynb").exists()
    for command in (["diff", str(gone_on), str(gone_on)], ["merge", *[str(gone_on)] * 3]):
        assert main(command) == 1
        assert message.format(cell=number, turn=3, moved=7) in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--from-outputs"], ["--from-outputs", "--session", "live-1"]])
def test_an_edited_saved_record_is_refused_where_the_outputs_go_on_from_it(gone_on, tmp_path, capsys, arguments):
    nb = json.loads(gone_on.read_text())
    nb["cells"][1]["metadata"]["kin"][0]["prompt"] = "else"
    gone_on.write_text(json.dumps(nb))
    assert main(["save", str(gone_on), str(tmp_path / "out.ipynb"), *arguments]) == 1
    assert "cell 2, turn 1: it was changed" in capsys.readouterr().err
    assert not (tmp_path / "out.ipynb").exists()


def test_a_session_that_goes_on_from_nothing_edited_is_saved_by_its_name(two_chained, tmp_path):
    apart = lived_cell("other-1", "else", 1)
    edit(typed(two_chained, apart), 1, other_reply)
    SaveCommand(str(two_chained), tmp_path / "own.ipynb", from_outputs=True, session="other").run()
    assert [each.turn for each in read_recording(load_notebook(tmp_path / "own.ipynb")).turns] == [1]


@pytest.mark.kernel
@pytest.mark.parametrize("change", EDITS)
def test_a_replay_stops_at_an_edited_record_and_names_it(gone_on, tmp_path, capsys, change):
    nb = json.loads(gone_on.read_text())
    nb["cells"].pop()  # the draft
    number = next(n for n, cell in enumerate(nb["cells"], 1) if cell["id"] == "c3")
    gone_on.write_text(json.dumps(nb))
    how, message = EDITS[change]
    edit(gone_on, number, how)
    assert main(["replay", str(gone_on), "--output-dir", str(tmp_path / "out")]) == 1
    assert message.format(cell=number, turn=3, moved=7) in capsys.readouterr().out
