"""`kin-nb save`: what goes in, what comes out, and what is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.cli.main import main
from kin_nb.core.records import ClearRecord, RecordedStep, SessionRecord, TurnRecord
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.render import render_record
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import command_key, conversation_key, session_name
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import NoRecordingError, RecordingError, ReplayError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from kin_nb.replay.playback.player import Playback
from kin_nb.replay.recording import Recording, WorkspaceMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.everything import EVERYTHING
from tests.unit.replay.sessions import carried_of, recording, turn, undo

TALK = recording(
    turn(1, "first ACME-1", cell_id="c1"), turn(2, "second", cell_id="c2"), workspace=WorkspaceMeta(path="work")
)


@pytest.fixture
def saved(tmp_path):
    """Writes a session notebook after `change`."""

    def saved(change=lambda nb: None, name: str = "talk.ipynb") -> Path:
        nb = session_notebook(TALK)
        change(nb)
        return write_notebook(nb, tmp_path / name)

    return saved


def asked_live(whole: Recording, record: SessionRecord, source: str = "", cell_id: str | None = None) -> Any:
    """The cell that made `record`, as a front end saves it."""
    output = new_output("display_data", {"text/plain": "x"}, metadata=carried_of(whole, record))
    asks = f"%%kin\n{record.prompt}" if isinstance(record, TurnRecord) else f"%kin {record.type}"
    return new_code_cell(source or asks, id=cell_id or record.cell_id, outputs=[output])


@pytest.fixture
def lived(tmp_path) -> Path:
    """A notebook as a front end saves it: no records in its metadata, one in the last output of each turn."""
    cells = [asked_live(TALK, each) for each in TALK.turns]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[new_code_cell("x = 1", id="own"), *cells])))
    return path


def played(nb: Any) -> dict[str, list[str]]:
    """By the session's name, the ids of what Run All shows of it; each cell shows what was saved in it."""
    book, shown = Book.collect(nb), {}
    players = {name: Playback(book, name) for name in {cell.session for cell in book.cells}}
    for cell in as_node(nb)["cells"]:
        key = conversation_key(nb, cell)
        if key is not None:
            name = session_name(cell) or ""
            records, _ = players[name].play(key, cell["id"])
            drawn = [output for record in records for output in render_record(record, name)]
            assert [output["data"] for output in cell["outputs"]] == [output.data for output in drawn]
            shown.setdefault(name, []).extend(record.id for record in records)
    return shown


def redrawn(path: Path):
    out = path.with_name("again.ipynb")
    SaveCommand(str(path), out).run()
    return load_notebook(out)


def test_outputs_are_drawn_again_from_the_recording_alone(saved):
    def spoil(nb):
        nb["cells"][1]["outputs"][0]["data"]["text/html"] = "<script>alert(1)</script>"
        nb["cells"][2]["outputs"] = []

    fresh = load_notebook(saved(name="fresh.ipynb"))
    nb = redrawn(saved(spoil))
    assert read_recording(nb) == read_recording(fresh)
    assert [cell["outputs"] for cell in nb["cells"]] == [cell["outputs"] for cell in fresh["cells"]]
    assert "<script>" not in str(nb)
    assert "Answer 2." in str(nb["cells"][2]["outputs"])


def test_a_prompt_that_would_stop_a_replay_is_reported(saved, tmp_path):
    path = saved()
    assert not any("a replay stops" in line for line in SaveCommand(str(path), tmp_path / "a.ipynb").run())
    raw = json.loads(path.read_text())
    raw["cells"].append(new_code_cell("%%kin\nnever run", id="draft"))
    path.write_text(json.dumps(raw))
    said = SaveCommand(str(path), tmp_path / "b.ipynb").run()
    assert "Cell 4 has no saved answer, so a replay stops there. Run or remove it, and save again." in said


def test_a_changed_recording_is_not_drawn_again(saved):
    def tamper(nb):
        nb["cells"][1]["metadata"]["kin"]["records"][0]["prompt"] = "other"

    with pytest.raises(RecordingError, match=r"talk\.ipynb: cell 2, turn 1"):
        redrawn(saved(tamper))


def test_a_notebook_without_a_recording_says_how_to_get_one_back(saved):
    def without_records(nb):
        del nb["metadata"]["kin"]
        for cell in nb["cells"]:
            cell["metadata"].pop("kin", None)

    with pytest.raises(RecordingError, match="kin-nb save 5b1c-session"):
        redrawn(saved(without_records))


def test_a_notebook_that_lost_its_own_metadata_alone_is_saved_with_what_its_cells_hold(saved):
    nb = redrawn(saved(lambda nb: nb["metadata"].pop("kin")))
    assert read_recording(nb).records == TALK.records
    assert read_recording(nb).session == TALK.session, "as the cell says that names the recording"


def test_a_notebook_written_elsewhere_finds_its_workspace(saved, tmp_path):
    (tmp_path / "other").mkdir()
    SaveCommand(str(saved()), tmp_path / "other" / "talk.ipynb").run()
    assert read_recording(load_notebook(tmp_path / "other" / "talk.ipynb")).meta.workspace.path == "../work"


def test_the_outputs_of_a_front_ends_notebook_become_records_and_the_rest_stays(lived, capsys):
    assert main(["save", str(lived)]) == 0
    nb = load_notebook(lived.with_name("mine.kin.ipynb"))
    assert read_recording(nb) == TALK
    assert played(nb) == {"": [each.id for each in TALK.turns]}
    assert "x = 1" in [cell["source"] for cell in nb["cells"]]
    assert RECORD_KEY not in str(nb)
    assert "Saved mine.kin.ipynb: recording 5b1c-session@" in capsys.readouterr().out


FIRST = recording(turn(1, "first", cell_id="c1", id="a" * 16))
SECOND = recording(
    turn(1, "second", cell_id="c3", id="b" * 16, seq=2), turn(2, "third", cell_id="c6", id="b1" * 8, seq=4)
)
REVIEW = recording(turn(1, "check it", cell_id="c5", id="c" * 16, seq=3, options="--session review"))


def of_session(session: str, talk: Recording) -> Recording:
    return Recording(talk.meta.model_copy(update={"session": session}), talk.records)


@pytest.fixture
def restarted(tmp_path) -> Path:
    """The kernel was restarted after the second cell, and a conversation with a name followed."""
    first, second, review = (
        of_session(f"{name}-1", talk) for name, talk in (("a", FIRST), ("b", SECOND), ("c", REVIEW))
    )
    cells = [
        asked_live(first, first.turns[0]),
        new_code_cell("x = 1", id="own"),
        asked_live(second, second.turns[0]),
        new_code_cell("%kin mode plan", id="mode"),
        asked_live(review, review.turns[0], "%%kin --session review\ncheck it"),
        asked_live(second, second.turns[1]),
        new_code_cell("%%kin\nnever run", id="asleep"),
    ]
    path = tmp_path / "my talk.ipynb"
    path.write_text(json.dumps(new_notebook(cells=cells)))
    return path


KEPT_CELLS = ["%%kin\nfirst", "x = 1", "%%kin\nsecond", "%%kin --session review\ncheck it", "%%kin\nthird"]


@pytest.mark.parametrize("kept", [False, True])
def test_all_sessions_that_the_outputs_hold_are_saved_and_play_and_prompts_without_an_answer_are_counted(
    restarted, tmp_path, capsys, kept
):
    if kept:  # Run All stopped in the first cell, and a front end saved that
        nb = json.loads(restarted.read_text())
        all_of_it = [
            {"cell": cell["id"], "carried": output["metadata"][RECORD_KEY]}
            for cell in nb["cells"]
            for output in cell["outputs"]
            if output
        ]
        for cell in nb["cells"]:
            cell["outputs"] = []
        nb["cells"][0]["outputs"] = [new_output("display_data", {"text/plain": "x"}, metadata={BACKUP_KEY: all_of_it})]
        restarted.write_text(json.dumps(nb))
    out = tmp_path / "b.ipynb"
    assert main(["save", str(restarted), str(out)]) == 0
    nb = load_notebook(out)
    assert [cell["source"] for cell in nb["cells"][1:]] == KEPT_CELLS
    assert played(nb) == {"": ["a" * 16, "b" * 16, "b1" * 8], "review": ["c" * 16]}
    found = read_recording(nb)
    assert found.records == (*FIRST.turns, SECOND.turns[0], *REVIEW.turns, SECOND.turns[1])
    assert (found.session, found.session_names) == ("b-1", {"c" * 16: "review"})
    said = capsys.readouterr().out
    assert "Left out: 1 prompt without a recorded answer." in said
    assert "a replay stops" not in said


def test_a_notebook_whose_outputs_carry_nothing_is_named(lived):
    lived.write_text(json.dumps(new_notebook(cells=[new_code_cell("1", id="a")])))
    with pytest.raises(NoRecordingError, match=r"(?s)^mine\.ipynb: .* no recorded answer either"):
        SaveCommand(str(lived)).run()
    assert list(lived.parent.iterdir()) == [lived]


@pytest.fixture
def moved(tmp_path) -> Path:
    """A front end's notebook of a session that was undone, given back, compacted and cleared."""
    path = tmp_path / "moved.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[asked_live(EVERYTHING, each) for each in EVERYTHING.records])))
    return path


@pytest.mark.parametrize("source", ["lived", "restarted", "saved", "gone_on", "moved"])
@pytest.mark.parametrize(
    "options",
    [SaveOptions(), SaveOptions(portable=True), SaveOptions(sidecar=True)],
    ids=["plain", "portable", "sidecar"],
)
def test_what_was_saved_is_saved_again_to_the_byte(request, tmp_path, source, options):
    found = request.getfixturevalue(source)
    path, once, twice = found() if source == "saved" else found, tmp_path / "once.ipynb", tmp_path / "twice.ipynb"
    SaveCommand(str(path), once, options).run()
    before = once.read_bytes()
    SaveCommand(str(once), once, options).run()
    assert once.read_bytes() == before
    SaveCommand(str(once), twice, options).run()
    assert twice.read_bytes().replace(b"twice.kin.json", b"once.kin.json") == before
    assert played(load_notebook(once)) == played(load_notebook(twice))


def test_what_is_taken_out_is_reported_and_secrets_go_always(saved, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")

    def type_a_secret(nb):
        nb["cells"].append(new_code_cell("login('hunter2hunter2')", id="typed"))

    path, out = saved(type_a_secret), tmp_path / "out.ipynb"
    assert main(["save", str(path), str(out), "--redact", r"ACME-\d", "--no-results"]) == 0
    said = capsys.readouterr().out
    assert "Redacted:" in said
    assert re.search(r"turn 1, prompt: 1 match of ACME", said)
    assert re.search(r"cell 4: 1 secret", said)
    assert "hunter2" not in out.read_text() + said
    assert "ACME-1" not in out.read_text()


def test_an_existing_file_is_not_written_over_by_a_plain_export(saved, tmp_path):
    plain = SaveOptions(plain=True)
    said = SaveCommand(str(saved()), options=plain).run()
    assert said == ["Saved talk.plain.ipynb: it needs no kin_nb, and has no recording."]
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


def typed(path: Path, *cells) -> Path:
    """As a front end saves it, with these cells at the end."""
    nb = json.loads(path.read_text())
    nb["cells"].extend(cells)
    path.write_text(json.dumps(nb))
    return path


def went_on(session: str, *records: SessionRecord) -> Recording:
    """What a kernel's session has recorded that went on where TALK ends."""
    return of_session(session, recording(*TALK.records, *records, workspace=TALK.meta.workspace))


GONE_ON = went_on("live-1", turn(3, "third", cell_id="c3"))
UNDO = undo(TALK.turns[1], to=TALK.turns[0], cell_id="u")
CLEAR = ClearRecord(id="d" * 16, parent=TALK.turns[1].head, seq=3, key=command_key("clear"), cell_id="u")


@pytest.fixture
def gone_on(saved) -> Path:
    """A session notebook in which someone went on after playback, as a front end saves it; saving it gives GONE_ON."""
    return typed(
        saved(),
        new_code_cell("x = 1", id="own"),
        asked_live(GONE_ON, GONE_ON.turns[2]),
        new_code_cell("%kin cost", id="cost"),
        new_code_cell("%%kin\na draft", id="draft"),
    )


PLAYED = ["%%kin\nfirst ACME-1", "%%kin\nsecond"]


def test_what_was_asked_after_playback_is_saved_with_what_came_before_it(gone_on, tmp_path, capsys):
    out = tmp_path / "out.ipynb"
    assert main(["save", str(gone_on), str(out)]) == 0
    nb = load_notebook(out)
    assert read_recording(nb) == GONE_ON
    assert [cell["source"] for cell in nb["cells"]][1:] == [*PLAYED, "x = 1", "%%kin\nthird"]
    assert played(nb) == {"": [each.id for each in GONE_ON.turns]}
    assert "Left out: 1 prompt without a recorded answer." in capsys.readouterr().out


def test_it_may_be_written_onto_itself_once_no_draft_would_go(gone_on):
    with pytest.raises(RecordingError, match=r"(?s)1 cell that you wrote in .* It is: %%kin ⏎ a draft\n"):
        SaveCommand(str(gone_on), gone_on).run()
    nb = json.loads(gone_on.read_text())
    nb["cells"].pop()
    gone_on.write_text(json.dumps(nb))
    SaveCommand(str(gone_on), gone_on).run()
    assert read_recording(load_notebook(gone_on)) == GONE_ON


def test_each_time_that_it_continued_is_in_there(saved, tmp_path):
    more = went_on("live-2", GONE_ON.turns[2], turn(4, "fourth", cell_id="c4"))
    cells = [asked_live(GONE_ON, GONE_ON.turns[2]), asked_live(more, more.turns[3])]
    SaveCommand(str(typed(saved(), *cells)), tmp_path / "out.ipynb").run()
    assert read_recording(load_notebook(tmp_path / "out.ipynb")) == more


@pytest.mark.parametrize("move", [UNDO, CLEAR], ids=["undo", "clear"])
@pytest.mark.parametrize("last", [False, True])
def test_what_moved_the_conversation_after_playback_is_in_there_too(saved, tmp_path, move, last):
    whole = went_on("live-1", move, *[turn(4, "again", cell_id="c3")] * (not last))
    cells = [asked_live(whole, each) for each in whole.records[2:]]
    SaveCommand(str(typed(saved(), *cells)), tmp_path / "out.ipynb").run()
    nb = load_notebook(tmp_path / "out.ipynb")
    assert read_recording(nb) == whole
    assert played(nb) == {"": [each.id for each in whole.records]}
    again = ["%%kin\nagain"] * (not last)
    assert [cell["source"] for cell in nb["cells"]][1:] == [*PLAYED, f"%kin {move.type}", *again]
    book = Book.collect(nb)
    sent = [TALK.turns[0]] if move is UNDO else []
    assert [each.prompt for each in book.conversation(book.head()).turns] == [
        *(each.prompt for each in sent),
        *(["again"] * (not last)),
    ]


@pytest.mark.parametrize("number", [1, 5])
def test_a_conversation_that_does_not_follow_is_in_there_too(saved, tmp_path, number):
    other = of_session("other-1", recording(turn(number, "else", cell_id="other", id="f" * 16, seq=3)))
    path = typed(saved(), asked_live(other, other.turns[0]))
    told = SaveCommand(str(path), tmp_path / "out.ipynb").run()
    assert not [line for line in told if "Left out" in line or "stops" in line]
    nb = load_notebook(tmp_path / "out.ipynb")
    assert [each.id for each in read_recording(nb).turns] == [*(each.id for each in TALK.turns), "f" * 16]
    assert played(nb) == {"": [each.id for each in read_recording(nb).turns]}


def test_a_cell_that_was_copied_with_its_output_shows_the_same_answer(lived, tmp_path):
    typed(lived, asked_live(TALK, TALK.turns[0], cell_id="copy"))
    SaveCommand(str(lived), tmp_path / "out.ipynb").run()
    nb = load_notebook(tmp_path / "out.ipynb")
    assert read_recording(nb) == TALK
    assert played(nb) == {"": [TALK.turns[0].id, TALK.turns[1].id, TALK.turns[0].id]}


def test_cells_that_have_no_ids_hold_what_their_outputs_carry(restarted, tmp_path):
    """Some front ends write nbformat 4.4; the text that was asked twice says nothing of which cell it was."""
    nb = json.loads(restarted.read_text())
    again = turn(3, "first", id="d" * 16, seq=5)
    nb["cells"].insert(0, asked_live(recording(again), again, cell_id="x"))
    nb["nbformat_minor"] = 4
    for cell in nb["cells"]:
        del cell["id"]
    restarted.write_text(json.dumps(nb))
    SaveCommand(str(restarted), tmp_path / "out.ipynb").run()
    nb = load_notebook(tmp_path / "out.ipynb")
    assert [cell["source"] for cell in nb["cells"][1:]] == ["%%kin\nfirst", *KEPT_CELLS]
    assert played(nb) == {"": ["d" * 16, "a" * 16, "b" * 16, "b1" * 8], "review": ["c" * 16]}


def test_a_save_warns_of_what_the_paired_text_would_lose(lived, tmp_path):
    nb = json.loads(lived.read_text())
    nb["metadata"]["jupytext"] = {"formats": "ipynb,py:nomarker"}
    lived.write_text(json.dumps(nb))
    said = SaveCommand(str(lived), tmp_path / "out.ipynb").run()
    assert [line for line in said if line.startswith("jupytext pairs this notebook with py:nomarker:")]


@pytest.fixture
def two_chained(tmp_path) -> Path:
    """What a front end saved of two sessions: turns 1 and 2 of the first, turn 3 of the one that went on from it."""
    cells = [*(asked_live(TALK, each) for each in TALK.turns), asked_live(GONE_ON, GONE_ON.turns[2])]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(new_notebook(cells=cells)))
    return path


def edit(path: Path, cell: int, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the record that the output of `cell` (from 1) carries, as an editor would."""
    nb = json.loads(path.read_text())
    change(nb["cells"][cell - 1]["outputs"][0]["metadata"][RECORD_KEY]["record"])
    path.write_text(json.dumps(nb))
    return path


def other_reply(record):
    record["steps"][0]["content"] = record["steps"][0]["content"].replace("Answer", "Reply")


def other_number(record):
    record["turn"] += 4


def other_parent(record):
    record["parent"] = {"id": "f" * 16}


EDITS = {
    "reply": (other_reply, "cell {cell}, turn {turn}, step 1: its reply or one of its tool calls was changed"),
    "prompt": (lambda record: record.update(prompt="else"), "cell {cell}, turn {turn}: it was changed"),
    "number": (other_number, "cell {cell}, turn {moved}: it was changed"),
    "id": (lambda record: record.update(id="f" * 16), "cell {cell}, turn {turn}: it was changed"),
    "parent": (other_parent, "cell {cell}, turn {turn}: it was changed"),
    "type": (lambda record: record.update(type="tern"), "cell {cell}, record 'tern': it was changed"),
}


@each_row("cell", [1, 2, 3])
@each_row("change", EDITS)
def test_an_edited_record_of_chained_sessions_is_refused_and_named(two_chained, tmp_path, capsys, change, cell):
    path, out = tmp_path / "mine.ipynb", tmp_path / "out.ipynb"
    path.write_bytes(two_chained.read_bytes())
    assert main(["save", str(path), str(out)]) == 0
    assert read_recording(load_notebook(out)) == GONE_ON
    out.unlink()
    how, message = EDITS[change]
    assert main(["save", str(edit(path, cell, how)), str(out)]) == 1
    assert message.format(cell=cell, turn=cell, moved=cell + 4) in capsys.readouterr().err
    assert not out.exists()


@each_row("change", EDITS)
def test_an_edited_record_after_a_saved_recording_is_refused_and_named(gone_on, tmp_path, capsys, change):
    how, message = EDITS[change]
    path = tmp_path / "mine.ipynb"
    path.write_bytes(gone_on.read_bytes())
    number = next(n for n, cell in enumerate(json.loads(path.read_text())["cells"], 1) if cell["id"] == "c3")
    edit(path, number, how)
    assert main(["save", str(path), str(tmp_path / "out.ipynb")]) == 1
    assert message.format(cell=number, turn=3, moved=7) in capsys.readouterr().err
    assert not (tmp_path / "out.ipynb").exists()
    for command in (["diff", str(path), str(path)], ["merge", *[str(path)] * 3]):
        assert main(command) == 1
        assert message.format(cell=number, turn=3, moved=7) in capsys.readouterr().err


def test_an_edited_saved_record_is_refused_where_the_outputs_continue_from_it(gone_on, tmp_path, capsys):
    nb = json.loads(gone_on.read_text())
    nb["cells"][1]["metadata"]["kin"]["records"][0]["prompt"] = "else"
    gone_on.write_text(json.dumps(nb))
    assert main(["save", str(gone_on), str(tmp_path / "out.ipynb")]) == 1
    assert "cell 2, turn 1: it was changed" in capsys.readouterr().err
    assert not (tmp_path / "out.ipynb").exists()


def test_two_records_of_one_id_are_refused_and_the_field_in_which_they_differ_is_named(two_chained, tmp_path, capsys):
    other = TALK.turns[1].model_copy(update={"steps": (RecordedStep(content="Another answer."),)})
    typed(two_chained, asked_live(TALK, other, cell_id="copy"))
    assert main(["save", str(two_chained), str(tmp_path / "out.ipynb")]) == 1
    said = capsys.readouterr().err
    assert "mine.ipynb: cell 4, turn 2: cell 2 has another version of it; field steps.1." in said
    assert not (tmp_path / "out.ipynb").exists()


SESSION = "abcd-1"


@pytest.fixture
def log(tmp_path, monkeypatch) -> Callable[..., None]:
    """Writes the log of SESSION: what it took over from a notebook, and what it made itself."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))

    def log(*made: SessionRecord, taken: tuple[TurnRecord, ...] = ()) -> None:
        session = SessionLog(SESSION)
        header = {"format": 1, "model": "m", "commit": None, "system_prompt": "b" * 64, "tools": "c" * 64}
        session.append("session", **header, session=SESSION, workspace=str(tmp_path))
        if taken:
            session.append("continued", records=[each.model_dump(mode="json") for each in taken])
        for record in made:
            if isinstance(record, TurnRecord):
                recorder = TurnRecorder(session, str, record.model_copy(update={"steps": (), "outcome": "running"}))
                for step in record.steps:
                    recorder.reply(step)
                recorder.end("done")
            else:
                session.append(record.type, record=record.model_dump(mode="json"))
        session.close()

    return log


NEW = went_on(SESSION, turn(3, "third", cell_id="c3", id="e" * 16)).turns[2]
IN_LINE = tuple(each.model_copy(update={"origin": None, "cost": "9.99"}) for each in TALK.turns)
"""As the session took them over: not all that the notebook has of them."""


def test_a_session_saved_onto_the_notebook_that_it_continued_from_is_joined_with_what_that_holds(saved, log):
    log(NEW, taken=IN_LINE)
    path = typed(saved(), new_markdown_cell("# Mine", id="mine"), new_code_cell("%%kin\nthird", id="c3"))
    SaveCommand("abcd", path).run()
    nb = load_notebook(path)
    assert read_recording(nb).records == (*TALK.records, NEW)
    assert read_recording(nb).session == SESSION
    assert [cell["source"] for cell in nb["cells"][1:]] == [*PLAYED, "# Mine", "%%kin\nthird"]
    assert played(nb) == {"": [each.id for each in (*TALK.turns, NEW)]}
    before = path.read_bytes()
    SaveCommand("abcd", path).run()
    assert path.read_bytes() == before


def test_what_the_notebook_alone_holds_is_not_lost_and_what_the_session_made_is_as_its_log_has_it(saved, log):
    """Somebody went on in another kernel too, and one of the session's outputs was lost."""
    other = turn(4, "beside", cell_id="c4", id="f" * 16, parent=TALK.turns[0].head)
    later = undo(NEW, to=TALK.turns[1], seq=5, cell_id="u")
    log(NEW, later, taken=IN_LINE)
    path = typed(saved(), asked_live(went_on("live-2", other), other), new_code_cell("%kin undo", id="u", outputs=[]))
    SaveCommand("abcd", path).run()
    nb = load_notebook(path)
    assert read_recording(nb).records == (*TALK.records, NEW, other, later)
    assert [cell["source"] for cell in nb["cells"][1:]] == [*PLAYED, "%%kin\nbeside", "%kin undo", "%%kin\nthird"]
    assert played(nb) == {"": [*(each.id for each in TALK.turns), other.id, later.id, NEW.id]}
    book = Book.collect(nb)
    assert book.conversation(book.head()).turns == TALK.turns


def test_a_session_heals_a_notebook_of_its_own_that_is_damaged(tmp_path, log):
    log(*TALK.turns)
    path = tmp_path / "own.kin.ipynb"
    SaveCommand("abcd", path).run()
    typed(path, new_markdown_cell("# Mine", id="mine"))
    nb = json.loads(path.read_text())
    nb["cells"][1]["metadata"]["kin"]["records"][0]["prompt"] = "else"
    path.write_text(json.dumps(nb))
    with pytest.raises(RecordingError, match="cell 2, turn 1: it was changed"):
        SaveCommand(str(path), path).run()
    SaveCommand("abcd", path).run()
    nb = load_notebook(path)
    assert [each.prompt for each in read_recording(nb).turns] == ["first ACME-1", "second"]
    assert [cell["source"] for cell in nb["cells"][1:]] == [*PLAYED, "# Mine"]


def test_a_session_is_not_saved_onto_a_notebook_of_another_that_it_has_nothing_of(saved, log):
    log(turn(1, "else", id="e" * 16))
    path = saved()
    before = path.read_bytes()
    with pytest.raises(
        RecordingError,
        match=r"^Not saved: talk\.ipynb has turns 1, 2 of session 5b1c-ses, which this session does not have",
    ):
        SaveCommand("abcd", path).run()
    assert path.read_bytes() == before


def test_a_session_that_is_not_written_over_a_notebook_has_cells_for_all_that_it_knows(tmp_path, log):
    log(NEW, taken=IN_LINE)
    SaveCommand("abcd", tmp_path / "new.ipynb").run()
    nb = load_notebook(tmp_path / "new.ipynb")
    assert [cell["source"] for cell in nb["cells"][1:]] == [*PLAYED, "%%kin\nthird"]
    assert read_recording(nb).records == (*IN_LINE, NEW)


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
    assert message.format(cell=number, turn=3, moved=7) in "".join(capsys.readouterr())
