"""What a notebook holds wherever its records are: in cells' metadata, in outputs, in the copy that the first cell keeps."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.core.records import SessionRecord, TurnRecord
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import cell_key, command_source, conversation_key
from kin_nb.replay.errors import LaterFormatError, NoRecordingError, NotRecorded, RecordingError
from kin_nb.replay.format.notebook_codec import read_saved
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY, backup_metadata, output_metadata
from kin_nb.replay.format.record_codec import encode_record
from kin_nb.replay.playback.player import Playback
from kin_nb.replay.recording import Recording, unknown_record_sha
from kin_nb.replay.saving.build import session_notebook
from tests.table import each_row
from tests.unit.replay.everything import EVERYTHING
from tests.unit.replay.sessions import SESSION, carried_of, recording, turn, undo

ONE, TWO, THREE = (turn(number, text, cell_id=f"c{number}") for number, text in enumerate(("a", "b", "c"), 1))
TALK = recording(ONE, TWO, THREE)


def live(whole: Recording, *, left_out: tuple[str, ...] = ()) -> Any:
    """As a front end saved it, through JSON: each record in an output of the cell that made it."""
    cells: dict[str, Any] = {}
    for record in whole.records:
        source = f"%%kin\n{record.prompt}" if isinstance(record, TurnRecord) else command_source(record)
        cell = cells.setdefault(record.cell_id or record.id, new_code_cell(source, id=record.cell_id or record.id))
        metadata = carried_of(whole, record) if record.id not in left_out else {}
        cell["outputs"].append(new_output("display_data", {"text/plain": ""}, metadata=metadata))
    return json.loads(json.dumps(new_notebook(cells=[*cells.values()]), sort_keys=True))


def saved(whole: Recording = TALK) -> Any:
    return json.loads(json.dumps(session_notebook(whole)))


def played(book: Book, nb: Any, *, ids: bool = True) -> list[tuple[SessionRecord, ...]]:
    """What each cell of the notebook that asks shows, all run in order."""
    playback = Playback(book)
    keys = [(conversation_key(nb, cell), cell.get("id")) for cell in nb["cells"]]
    return [playback.play(key, cell_id if ids else None)[0] for key, cell_id in keys if key is not None]


def changed(record: SessionRecord, **fields: Any) -> SessionRecord:
    return record.model_copy(update=fields)


def made(record: SessionRecord) -> dict[str, Any]:
    """`kin` in a cell's metadata that holds it, with its hash."""
    blobs: dict[str, Any] = {}
    return {"records": [encode_record(record, blobs)], "blobs": blobs}


# Where records are


@pytest.mark.parametrize("whole", [TALK, EVERYTHING, recording()], ids=["turns", "everything", "nothing"])
def test_what_was_saved_is_there_in_its_cells(whole):
    nb = saved(whole)
    book = Book.collect(nb)
    assert (*book.records.values(),) == whole.records
    assert (book.saved, book.unknown_records, book.meta, book.output_records) == (
        whole,
        whole.unknown_records,
        whole.meta,
        {},
    )
    assert book.records_by_cell == {index: tuple(records) for index, records in read_saved(nb).records_by_cell.items()}
    assert [cell.number for cell in book.cells] == [*range(2, 2 + len(whole.records))]


@pytest.mark.parametrize("whole", [TALK, replace(EVERYTHING, unknown_records=())], ids=["turns", "everything"])
def test_outputs_give_the_recording_back(whole):
    book = Book.collect(live(whole))
    assert book.recording == whole
    assert book.recording.digest == whole.digest
    assert book.saved is None
    assert {known: each.raw for known, each in book.output_records.items()} == {
        record.id: carried_of(whole, record)[RECORD_KEY] for record in whole.records
    }


def test_outputs_give_long_texts_and_broken_ones_back(session):
    assert Book.collect(live(session)).recording == session


def test_a_cell_holds_what_its_metadata_has_and_what_its_outputs_carry_each_once():
    """It was saved, asked again, and saved by its front end; the first answer's card is still there."""
    again = turn(4, "b", cell_id="c2")
    whole = recording(*TALK.records, undo(TALK.turns[2], to=ONE, id="d" * 16, seq=4, key=again.key, cell_id="c2"))
    whole = replace(whole, records=(*whole.records, changed(again, parent=ONE.head, ancestors=(ONE.id,), seq=5)))
    nb = saved()
    nb["cells"][2]["outputs"] = [
        new_output("display_data", {}, metadata=carried_of(whole, record))
        for record in (TALK.turns[1], *whole.records[3:])
    ]
    book = Book.collect(nb)
    assert book.records_by_cell == {1: (ONE,), 2: (TALK.turns[1], *whole.records[3:]), 3: (TALK.turns[2],)}
    assert [*book.output_records] == [record.id for record in whole.records[3:]]
    assert book.saved == TALK
    assert book.recording.records == whole.records
    assert book.head() == whole.records[-1]
    assert book.conversation(book.head()).turns == (ONE, whole.records[-1])
    assert played(book, nb) == [(ONE,), whole.records[3:], (TALK.turns[2],)]


@pytest.mark.parametrize("dropped", ["all", "some", "none"])
def test_what_outputs_lost_and_the_first_cell_keeps_is_there(session, dropped):
    nb = live(session)
    head = new_output("display_data", {}, metadata=backup_metadata(nb))
    for cell in nb["cells"][: {"all": None, "some": 1, "none": 0}[dropped]]:
        cell["outputs"] = []
    nb["cells"].insert(0, new_code_cell("%kin replay x@y", id="head", outputs=[head]))
    assert Book.collect(nb).recording == session
    assert Book.collect(nb).records_by_cell == {index + 1: (record,) for index, record in enumerate(session.records)}


def test_what_the_first_cell_keeps_of_a_deleted_cell_goes_with_it():
    nb = live(TALK)
    nb["cells"].insert(
        0, new_code_cell("1", id="head", outputs=[new_output("display_data", {}, metadata=backup_metadata(nb))])
    )
    del nb["cells"][2]
    assert [*Book.collect(nb).records.values()] == [TALK.turns[0], TALK.turns[2]]


def test_an_edited_cell_keeps_its_records_since_its_text_may_be_put_back():
    nb = live(TALK)
    nb["cells"][1]["source"] = "%%kin\nElse."
    book = Book.collect(nb)
    cell = book.cell("c2")
    assert (cell.key, cell.records, cell.shown) == (cell_key("Else.", ""), (TALK.turns[1],), ())
    nb["cells"][1]["source"] = "print(1)"
    assert Book.collect(nb).records_by_cell == book.records_by_cell
    assert Book.collect(nb).cell("c2").key == ""


def test_cells_that_ask_and_hold_nothing_are_there_others_are_not():
    cells = [new_code_cell("%%kin\na", id="a"), new_code_cell("1", id="b"), new_markdown_cell("c", id="c")]
    book = Book.collect(new_notebook(cells=[*cells, new_code_cell("%kin undo", id="d")]))
    assert [(cell.cell_id, cell.number, cell.records) for cell in book.cells] == [("a", 1, ()), ("d", 4, ())]


@pytest.mark.parametrize("cell_id", [None, 5, ["b"]])
def test_an_id_that_is_none_is_nobodys(cell_id):
    nb = live(TALK)
    nb["cells"][1]["id"] = cell_id
    book = Book.collect(nb)
    assert [cell.cell_id for cell in book.cells] == ["c1", None, "c3"]
    assert book.recording == TALK


@pytest.mark.parametrize("nb", [new_notebook(), new_notebook(cells=[new_code_cell("1", id="a")])])
def test_a_notebook_that_holds_nothing_says_so(nb):
    book = Book.collect(nb)
    assert (book.head(), book.saved, book.records) == (None, None, {})
    assert book.conversation(book.head()).sent == ()
    with pytest.raises(NoRecordingError, match="no recorded answer either"):
        _ = book.recording


def test_a_record_of_a_later_version_in_an_output_is_kept():
    nb = live(TALK)
    raw = nb["cells"][0]["outputs"][0]["metadata"][RECORD_KEY]
    raw["record"] = {"type": "poll", "of": 1, "sha": unknown_record_sha({"type": "poll", "of": 1})}
    book = Book.collect(nb)
    assert book.unknown_records == ('{"of":1,"type":"poll"}',)
    assert book.recording.unknown_types == ("poll",)
    assert TALK.turns[0].id not in book.records


# Sessions


def of_session(name: str, *records: SessionRecord) -> Recording:
    return Recording(TALK.meta.model_copy(update={"session": name}), records)


def test_a_session_that_continued_from_another_is_one_conversation_with_it():
    """The kernel was restarted; the notebook has both in its outputs, or one of them in its metadata."""
    later = of_session("later", *TALK.records[2:])
    for nb in (live(of_session(SESSION, *TALK.records[:2])), saved(of_session(SESSION, *TALK.records[:2]))):
        nb["cells"] += live(later)["cells"]
        book = Book.collect(nb)
        assert book.recording.records == TALK.records
        assert book.recording.session == "later"
        assert book.conversation(book.head()).turns == TALK.turns


def test_a_conversation_of_another_name_is_apart_and_in_the_recording():
    nb = live(TALK)
    beside = turn(9, "h", id="9" * 16, cell_id="h1", options="--session helper")
    nb["cells"] += live(of_session("helper", beside))["cells"]
    nb["cells"][-1]["source"] = "%%kin --session helper\nh"
    book = Book.collect(nb)
    assert (book.head(), book.head("helper")) == (TALK.turns[-1], beside)
    assert book.conversation(book.head("helper")).turns == (beside,)
    assert book.recording.session_names == {beside.id: "helper"}
    assert book.recording.records == (*TALK.records, beside)
    whole = book.recording
    assert Book.collect(json.loads(json.dumps(session_notebook(whole, source_nb=nb)))).recording == whole


def test_of_two_that_continued_from_one_turn_both_are_there_and_the_upper_one_is_the_head():
    here = changed(turn(4, "d", cell_id="here"), parent=THREE.head, ancestors=(THREE.id,))
    there = changed(turn(4, "e", cell_id="there", id="e" * 16), parent=THREE.head, ancestors=(THREE.id,))
    nb = saved()
    nb["cells"] += live(of_session("here", here))["cells"] + live(of_session("there", there))["cells"]
    book = Book.collect(nb)
    assert book.head() == here
    assert played(book, nb)[3:] == [(here,), (there,)]
    nb["cells"][-1], nb["cells"][-2] = nb["cells"][-2], nb["cells"][-1]
    assert Book.collect(nb).head() == there


# Cells that were deleted, and pasted


@each_row("make", [saved, live], ids=["saved", "live"])
@each_row("gone", [0, 1, 2])
@each_row("ids", [True, False], ids=["with ids", "without ids"])
def test_a_deleted_cell_is_no_error_and_the_others_play(make, gone, ids):
    nb = make(TALK)
    nb["cells"] = [cell for cell in nb["cells"] if cell["id"] != f"c{gone + 1}"]
    book = Book.collect(nb)
    left = [record for record in TALK.records if record.cell_id != f"c{gone + 1}"]
    assert played(book, nb, ids=ids) == [(record,) for record in left]
    found = book.conversation(book.head())
    assert [*found.turns] == left
    assert found.missing_ids == ((TALK.records[gone].id,) if gone < 2 else ())


@pytest.mark.parametrize("kept", [False, True], ids=["in its output", "kept by the first cell"])
def test_where_all_saved_cells_were_deleted_what_was_answered_since_plays(kept):
    """The notebook's metadata still names what was saved: that its cells hold none of it is no cleaner's work."""
    nb, more = saved(TALK), recording(turn(7, "More.", cell_id="more"))
    nb["cells"] = [cell for cell in nb["cells"] if not cell["metadata"].get("kin")] + live(more)["cells"]
    nb["cells"].append(new_code_cell("%%kin\nNot asked yet.", id="draft"))
    if kept:
        nb["cells"][0]["outputs"] = [new_output("display_data", {}, metadata=backup_metadata(nb))]
        nb["cells"][-2]["outputs"] = []
    book = Book.collect(nb)
    assert [*book.records.values()] == [*more.records]
    assert book.conversation(book.head()).turns == more.turns


@each_row("source", [saved, live], ids=["saved", "live"])
@each_row("target", [saved, live, lambda _: new_notebook()], ids=["saved", "live", "no recording"])
@each_row("copied", [True, False], ids=["a new id", "its id"])
def test_a_pasted_cell_plays_also_where_there_is_no_recording(source, target, copied, session):
    """Long texts come along."""
    other = of_session("other", session.turns[0].model_copy(update={"id": "f" * 16, "seq": 2, "cell_id": "other"}))
    nb = target(TALK)
    (pasted,) = [cell for cell in source(other)["cells"] if cell["id"] == "other"]
    nb["cells"].append(copy.deepcopy(pasted) | ({"id": "pasted"} if copied else {}))
    book = Book.collect(nb)
    assert played(book, nb)[-1] == other.records
    assert played(book, nb, ids=False)[-1] == other.records
    assert set(book.records) == {"f" * 16, *(record.id for record in (TALK.records if len(nb["cells"]) > 1 else ()))}
    whole = book.recording
    assert Book.collect(json.loads(json.dumps(session_notebook(whole, source_nb=nb)))).recording == whole


@pytest.mark.parametrize("make", [saved, live], ids=["saved", "live"])
def test_a_copy_of_a_cell_in_its_own_notebook_shows_the_same(make):
    nb = make(TALK)
    nb["cells"].append(copy.deepcopy(nb["cells"][-1]) | {"id": "copy"})
    book = Book.collect(nb)
    assert book.recording == TALK
    assert played(book, nb) == [*((record,) for record in TALK.records), TALK.records[-1:]]
    assert book.head() == TALK.records[-1]


def test_a_copy_that_lost_its_record_shows_what_the_only_cell_of_its_text_shows():
    nb = saved()
    nb["cells"].append(new_code_cell("%%kin\nb", id="new"))
    book = Book.collect(saved())
    assert Playback(book).play(cell_key("b", ""), "new") == (TALK.records[1:2], True)
    with pytest.raises(NotRecorded):
        Playback(Book.collect(nb)).play(cell_key("b", ""), "new")  # saved since: it is a cell that was never asked


# What was changed by hand


SIDES = {
    "two cells' metadata": (
        lambda nb, record: nb["cells"].append({**nb["cells"][2], "id": "x", "metadata": {"kin": made(record)}}),
        r"^cell 5, turn 2: cell 3 has another version of it; field prompt",
    ),
    "two cells' outputs": (
        lambda nb, record: [nb["cells"].append(cell) for cell in live(of_session(SESSION, record))["cells"]],
        r"^cell 5, turn 2: cell 3 has another version of it; field prompt",
    ),
    "metadata and output of a cell": (
        lambda nb, record: nb["cells"][2]["outputs"].append(
            new_output("display_data", {}, metadata=output_metadata(record, TALK.meta))
        ),
        r"^cell 3, turn 2: its outputs and metadata have different versions; field prompt",
    ),
    "metadata and what the first cell keeps": (
        lambda nb, record: nb["cells"][0]["outputs"][0]["metadata"].update(
            {BACKUP_KEY: [{"cell": "c2", "carried": output_metadata(record, TALK.meta)[RECORD_KEY]}]}
        ),
        r"^cell 3, turn 2: its outputs and metadata have different versions; field prompt",
    ),
}


@pytest.mark.parametrize("where", SIDES)
def test_one_id_with_two_contents_is_refused_wherever_they_are_and_the_field_is_named(where):
    change, said = SIDES[where]
    nb = saved()
    change(nb, TALK.turns[1])
    assert Book.collect(nb).recording == TALK, "the same is no error"
    nb = saved()
    change(nb, changed(TALK.turns[1], prompt="Something else."))
    with pytest.raises(RecordingError, match=said):
        Book.collect(nb)


def test_one_id_of_two_types_is_refused():
    nb = saved()
    other = undo(TALK.turns[2], to=ONE, id=TWO.id, cell_id="u")
    nb["cells"].append(live(recording(other))["cells"][0])
    with pytest.raises(RecordingError, match=r"^cell 5, undo: cell 3 has another version of it; field type"):
        Book.collect(nb)


def test_a_record_that_was_changed_in_an_output_is_named(session):
    nb = live(session)
    nb["cells"][0]["outputs"][0]["metadata"][RECORD_KEY]["record"]["steps"][1]["content"] = "Something else."
    with pytest.raises(RecordingError, match=r"^cell 1, turn 1, step 2: its reply"):
        Book.collect(nb)


@pytest.mark.parametrize("make", [saved, live], ids=["saved", "live"])
def test_damage_in_a_pasted_cell_and_in_another_session_is_named_too(make):
    other = of_session("other", turn(7, "x", cell_id="other"))
    nb = saved()
    nb["cells"] += [cell for cell in make(other)["cells"] if cell["id"] == "other"]
    assert len(Book.collect(nb).records) == 4
    kin, output = nb["cells"][-1]["metadata"].get("kin"), nb["cells"][-1]["outputs"][0]["metadata"].get(RECORD_KEY)
    (kin["records"][0] if kin else output["record"])["prompt"] = "Something else."
    with pytest.raises(RecordingError, match=r"^cell 5, turn 7: it was changed after it was recorded"):
        Book.collect(nb)


@each_row(("field", "value"), [("turn", None), ("turn", "x"), ("turn", []), ("type", None), ("type", {}), ("id", None)])
def test_a_record_that_says_nothing_of_its_place_is_named(field, value):
    nb = live(TALK)
    nb["cells"][2]["outputs"][0]["metadata"][RECORD_KEY]["record"][field] = value
    with pytest.raises(RecordingError, match=r"^cell 3"):
        Book.collect(nb)


@pytest.mark.parametrize("at", [1, 3])
def test_what_format_1_carried_in_an_output_is_refused_with_what_to_do(at):
    nb = live(TALK)
    nb["cells"][1]["outputs"][0]["metadata"][RECORD_KEY]["session"]["format"] = at
    with pytest.raises(
        LaterFormatError, match=rf"^cell 2: Recorded in format {at} by kin_nb 0\.1\.0; this version reads format 2"
    ):
        Book.collect(nb)
