"""A record edited by hand: every field of every kind of record, wherever it is stored, changed, taken out, or of another type."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.core.records import TurnRecord, canonical_json, sha256
from kin_nb.replay.book import Book
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook, parse_notebook
from kin_nb.replay.format.output_records import backup_metadata
from kin_nb.replay.format.storage import sidecar_name
from kin_nb.replay.playback.locate import embedded_recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.edits import at, edit, edits, places, stored
from tests.unit.replay.everything import EVERYTHING, fields_not_set
from tests.unit.replay.sessions import LONG, carried_of

FORMS = {"metadata": SaveOptions(), "portable": SaveOptions(portable=True), "sidecar": SaveOptions(sidecar=True)}


def test_the_recording_here_has_every_field_there_is():
    # these have one value each
    assert fields_not_set((EVERYTHING.records, EVERYTHING.meta)) == {
        "SessionMeta.format",
        "TurnRecord.type",
        "ClearRecord.type",
        "CompactRecord.type",
    }


def all_records() -> list[tuple[int, int, str]]:
    """(index of a cell, index in it, name) of each record of `stored()`."""
    held = ((n, cell["metadata"].get("kin", {})) for n, cell in enumerate(stored()["cells"]))
    return [(n, k, name_of(raw)) for n, kin in held for k, raw in enumerate(kin.get("records", []))]


@each_row(("what", "path"), edits())
def test_an_edit_of_any_field_is_named_by_its_cell_turn_and_step(what, path):
    nb = stored()
    record = at(nb, path[:6])
    named = name_of(record)
    edit(nb, what, path)
    with pytest.raises(RecordingError) as caught:
        read_recording(nb)
    check_named(str(caught.value), path[1], named, what, path[6:])


def name_of(record: Any) -> str:
    """As messages call it."""
    if record["type"] == "vote":
        return "record 'vote'"
    return f"turn {record['turn']}" if record["type"] == "turn" else str(record["type"])


def check_named(said: str, index: int, named: str, what: str, field: tuple) -> None:
    """The message names the cell, the record, the step, and the field of a wrong type."""
    assert said.startswith(f"cell {index + 1}")
    if field[0] in ("type", "turn"):
        return  # then nothing says what it was
    assert said.startswith(f"cell {index + 1}, {named}")
    in_step = field[0] == "steps" and len(field) > 2
    if in_step:
        assert f", step {field[1] + 1}: " in said
    if what == "of another type" and "vote" not in named and field[-1] != "sha" and field[-2:-1] != ("steps",):
        names = [part for part in field[2 if in_step else 0 :] if part not in ("blob", "json")]
        dotted = ".".join(str(part + 1 if isinstance(part, int) else part) for part in names)
        assert f"field {dotted}" in said.replace("`", "")


@each_row("what", ["changed", "removed", "of another type"])
def test_an_edit_of_the_list_of_records_is_named_as_such(what):
    for path in [(), *places(stored()["metadata"]["kin"]["records"])]:
        nb = stored()
        edit(nb, what, ("metadata", "kin", "records", *path))
        with pytest.raises(RecordingError, match=r"^notebook metadata: the list of records, or model"):
            read_recording(nb)


@each_row("key", ["format", "session", "digest", "kin_nb", "model", "workspace", "system_prompt", "tools"])
@each_row("what", ["changed", "removed", "of another type"])
def test_an_edit_of_what_is_true_of_the_whole_session_is_named_as_such(key, what):
    nb = stored()
    edit(nb, what, ("metadata", "kin", key))
    with pytest.raises(
        RecordingError,
        match=r"(?s)^(notebook metadata|Recorded in format|The notebook's `kin`).*(kin-nb save|Update kin_nb)",
    ):
        read_recording(nb)


def test_a_long_text_that_was_changed_or_lost_is_named_by_its_field():
    for replacement in ("x", {"json": "5"}, {}, 5, None):
        nb = stored()
        nb["cells"][2]["metadata"]["kin"]["blobs"][sha256(LONG)] = replacement
        with pytest.raises(RecordingError, match=r"^cell 3, turn 2, step 1: field calls\.2\.output: it"):
            read_recording(nb)


def test_a_value_that_is_added_at_its_default_or_written_otherwise_is_no_edit():
    nb = stored()
    first = nb["cells"][1]["metadata"]["kin"]["records"][0]
    first |= {"cost": "", "milliseconds": 0.0, "warnings": [], "turn": 1.0, "compaction": None, "seq": 1.0}
    assert read_recording(nb) == EVERYTHING


# What else it may be stored in.


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_file_is_read_back_equal(form, tmp_path):
    path = write_notebook(session_notebook(EVERYTHING, options=FORMS[form]), tmp_path / "s.ipynb")
    assert read_recording(load_notebook(path)) == EVERYTHING
    assert (tmp_path / sidecar_name(path)).exists() == (form == "sidecar")


def as_saved(form: str, tmp_path) -> Any:
    """The notebook in that form of file, as JSON, each cell's source one text; and its sidecar's text, "" without one."""
    path = write_notebook(session_notebook(EVERYTHING, options=FORMS[form]), tmp_path / "s.ipynb")
    nb = json.loads(path.read_text())
    for cell in nb["cells"]:
        cell["source"] = "".join(cell["source"])
    beside = tmp_path / sidecar_name(path)
    return nb, json.loads(beside.read_text()) if beside.exists() else {}


@each_row("every", [12], long=[1])
@each_row("what", ["changed", "removed", "of another type"])
def test_an_edit_of_any_field_in_a_portable_notebook_is_named_too(what, tmp_path, every):
    """By the cell that asks; by its number among those that the text holds, where nothing else is known."""
    nb, _ = as_saved("portable", tmp_path)
    head, _, body = nb["cells"][1]["source"].partition("\n")
    places_of_records = list(embedded_places(json.loads(body)))
    assert len(places_of_records) > 200
    for index, number, path, named in places_of_records[::every]:
        value = json.loads(body)
        edit(value["cells"], what, (index, "kin", "records", *path))
        nb["cells"][1]["source"] = f"{head}\n{json.dumps(value)}"
        with pytest.raises(RecordingError) as caught:
            read_recording(parse_notebook(json.dumps(nb), "s.ipynb"))
        check_named(str(caught.value), number, named, what, path[1:])
        with pytest.raises(RecordingError) as caught:
            embedded_recording(EVERYTHING.name, json.dumps(value))
        check_named(str(caught.value), index, named, what, path[1:])


def embedded_places(value: Any) -> Iterator[tuple[int, int, tuple, str]]:
    """(index within the text, index among the notebook's cells, path of what is in the records, name) of each record."""
    for index, cell in enumerate(value["cells"]):
        for n, record in enumerate(cell["kin"]["records"]):
            yield from ((index, index + 2, (n, *path), name_of(record)) for path in places(record))


@each_row("step", [997], long=[97])
@each_row("form", ["portable", "sidecar"])
def test_a_long_text_that_was_changed_in_the_other_forms_is_named_by_its_field(form, tmp_path, step):
    nb, beside = as_saved(form, tmp_path)
    text = nb["cells"][1]["source"] if form == "portable" else json.dumps(beside)
    said = r"^cell [34], turn 2, step 1: field calls\.2\.output: its text in .* was changed"
    for changed in one_changed(text, step, "line of a long result"):
        if form == "portable":
            nb["cells"][1]["source"] = changed
        else:
            (tmp_path / "s.kin.json").write_text(changed)
        (tmp_path / "s.ipynb").write_text(json.dumps(nb))
        with pytest.raises(RecordingError, match=said):
            read_recording(load_notebook(tmp_path / "s.ipynb"))


def one_changed(text: str, step: int, within: str) -> Iterator[str]:
    """`text` with one of its letters changed, each `step`th of those between the first and the last `within`."""
    for place in range(text.index(within), text.rindex(within) + len(within), step):
        letter = "x" if text[place] != "x" else "y"
        if text[place] not in '"\\n' and text[place - 1] != "\\":
            yield f"{text[:place]}{letter}{text[place + 1 :]}"


@each_row("every", [15], long=[1])
@each_row(("number", "index", "name"), all_records())
def test_each_byte_of_a_record_counts(number, index, name, every):
    """As a text: what is no JSON any more is refused by the file's name, what still is one by cell and turn."""
    record = stored()["cells"][number]["metadata"]["kin"]["records"][index]
    text = canonical_json(record)
    said: set[str] = set()
    for place in range(0, len(text), every):
        for letter in {"0", "b"} - {text[place]}:
            try:
                changed = json.loads(f"{text[:place]}{letter}{text[place + 1 :]}")
            except ValueError:
                continue  # as an editor would say
            if changed == record:
                continue
            nb = stored()
            nb["cells"][number]["metadata"]["kin"]["records"][index] = changed
            with pytest.raises(RecordingError) as caught:
                read_recording(nb)
            assert str(caught.value).startswith(f"cell {number + 1}"), (place, letter)
            if isinstance(changed, dict) and all(changed.get(key) == record.get(key) for key in ("type", "turn")):
                assert str(caught.value).startswith(f"cell {number + 1}, {name}"), (place, letter)
            said.add(str(caught.value))
    assert said


def in_outputs() -> Any:
    """As a front end saved it: a record in the last output of each cell."""
    cells = []
    for record in EVERYTHING.records:
        output = new_output("display_data", {"text/plain": "x"}, metadata=carried_of(EVERYTHING, record))
        source = "%%kin\nx" if isinstance(record, TurnRecord) else f"%kin {record.type}"
        cells.append(new_code_cell(source, outputs=[output], id=record.cell_id))
    return json.loads(json.dumps(new_notebook(cells=cells)))


def in_the_first_cell() -> Any:
    """The same, where all outputs were dropped but the first cell's, which keeps what they carried."""
    nb = in_outputs()
    first = new_code_cell(
        "%load_ext kin_nb", id="head", outputs=[new_output("display_data", metadata=backup_metadata(nb))]
    )
    for cell in nb["cells"]:
        cell["outputs"] = []
    nb["cells"].insert(0, json.loads(json.dumps(first)))
    return nb


CARRIERS = {
    "outputs": (in_outputs, lambda n: (n, "outputs", 0, "metadata", "kin_recording")),
    "first cell": (in_the_first_cell, lambda n: (0, "outputs", 0, "metadata", "kin_kept", n - 1, "carried")),
}


@each_row("every", [10], long=[1])
@each_row("carrier", CARRIERS)
@each_row("what", ["changed", "removed", "of another type"])
def test_an_edit_of_a_record_in_an_output_is_named_by_its_cell_turn_and_step(what, carrier, every):
    make, place = CARRIERS[carrier]
    whole = make()
    assert Book.collect(whole).recording.records == EVERYTHING.records
    tried = 0
    for number, cell in enumerate(whole["cells"]):
        if cell["id"] == "head":
            continue
        where = ("cells", *place(number), "record")
        record = at(whole, where)
        for path in list(places(record))[::every]:
            nb = copy.deepcopy(whole)
            edit(nb, what, (*where, *path))
            with pytest.raises(RecordingError) as caught:
                Book.collect(nb)
            check_named(str(caught.value), number, name_of(record), what, path)
            tried += 1
    assert tried > 100 / every


@each_row("carrier", CARRIERS)
def test_a_long_text_that_an_output_carries_and_that_was_changed_is_named_by_its_field(carrier):
    make, place = CARRIERS[carrier]
    number = 1 if carrier == "outputs" else 2
    for replacement in ("x", LONG[:-1], {"json": "5"}, {}, 5, None):
        nb = make()
        at(nb, ("cells", *place(number), "blobs"))[sha256(LONG)] = replacement
        with pytest.raises(RecordingError, match=rf"^cell {number + 1}, turn 2, step 1: field calls\.2\.output: it"):
            Book.collect(nb)


@each_row("every", [10], long=[1])
def test_whatever_replaces_a_value_reading_and_saving_end_in_a_sentence_or_in_an_equal_recording(every):
    nasty = [
        None,
        True,
        -1,
        1.5,
        2**63,
        float("inf"),
        "",
        "\ud800",
        "../../x",
        [],
        {},
        {"blob": []},
        {"json": "[" * 999},
    ]
    whole = stored()
    for number, path in list(enumerate(places(whole)))[::every]:
        nb = copy.deepcopy(whole)
        at(nb, path[:-1])[path[-1]] = nasty[number % len(nasty)]
        with suppress(RecordingError):
            loaded = parse_notebook(json.dumps(nb), "n.ipynb")
            if "kin" not in path and "data" not in path:  # what saving reads
                assert session_notebook(EVERYTHING, source_nb=loaded)["cells"]
            assert set(read_recording(loaded).records) <= set(EVERYTHING.records), path
