"""A record edited by hand: every field of every kind of record, wherever it is stored, changed, taken out, or of another type."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.core.session.records import sha256
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import recording_in_outputs
from kin_nb.replay.format.loading import load_notebook, parse_notebook
from kin_nb.replay.format.sidecar import sidecar_name
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.edits import at, edit, edits, places, stored
from tests.unit.replay.everything import EVERYTHING, fields_not_set
from tests.unit.replay.sessions import LONG, carried_of

FORMS = {"metadata": SaveOptions(), "portable": SaveOptions(portable=True), "sidecar": SaveOptions(sidecar=True)}


def test_the_recording_here_has_every_field_there_is():
    # these two have one value each
    assert fields_not_set((EVERYTHING.turns, EVERYTHING.undos, EVERYTHING.meta)) == {
        "SessionMeta.format",
        "TurnRecord.type",
    }


EDITS = [pytest.param(what, path, id=f"{'.'.join(map(str, path[1:]))} {what}") for what, path in edits()]


@pytest.mark.parametrize(("what", "path"), EDITS)
def test_an_edit_of_any_field_is_named_by_its_cell_turn_and_step(what, path):
    nb = stored()
    record = nb["cells"][path[1]]["metadata"]["kin"][path[4]]
    number, kind = (record.get("turn") or record["n"]), record["type"]
    edit(nb, what, path)
    with pytest.raises(RecordingError) as caught:
        read_recording(nb)
    said = str(caught.value)
    assert said.startswith(f"cell {path[1] + 1}")
    if path[5] in ("type", "turn", "n"):
        return  # then nothing says what it was
    if kind != "vote":
        assert f"{kind} {number}" in said
    in_step = path[5] == "steps" and len(path) > 7
    if in_step:
        assert f", step {path[6] + 1}: " in said
    if what == "of another type" and kind != "vote" and path[-1] != "sha" and path[-2:-1] != ("steps",):
        field = [part for part in path[7 if in_step else 5 :] if part not in ("blob", "json")]
        dotted = ".".join(str(part + 1 if isinstance(part, int) else part) for part in field)
        assert f"field {dotted}" in said.replace("`", "")


@pytest.mark.parametrize(
    "key", ["format", "session", "digest", "kin_nb", "model", "workspace", "system_prompt", "tools"]
)
@pytest.mark.parametrize("what", ["changed", "removed", "of another type"])
def test_an_edit_of_what_is_true_of_the_whole_session_is_named_as_such(key, what):
    nb = stored()
    edit(nb, what, ("metadata", "kin", key))
    with pytest.raises(
        RecordingError,
        match=r"^(notebook metadata|Recorded in format|This notebook's `kin`).*(kin-nb save|update kin_nb)",
    ):
        read_recording(nb)


def test_a_long_text_that_was_changed_or_lost_is_named_by_its_field():
    for replacement in ("x", {"json": "5"}, {}, 5, None):
        nb = stored()
        nb["metadata"]["kin"]["blobs"][sha256(LONG)] = replacement
        with pytest.raises(RecordingError, match=r"^cell 3, turn 2, step 1: field calls\.2\.output: it"):
            read_recording(nb)


def test_a_value_that_is_added_at_its_default_or_written_otherwise_is_no_edit():
    nb = stored()
    first = nb["cells"][1]["metadata"]["kin"][0]
    first |= {"cost": "", "milliseconds": 0.0, "warnings": [], "turn": 1.0, "origin": None}
    assert read_recording(nb) == EVERYTHING


# What else it may be stored in.


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_file_is_read_back_equal(form, tmp_path):
    path = write_notebook(session_notebook(EVERYTHING, options=FORMS[form]), tmp_path / "s.ipynb")
    assert read_recording(load_notebook(path)) == EVERYTHING
    assert (tmp_path / sidecar_name(path)).exists() == (form == "sidecar")


@pytest.mark.parametrize("form", ["portable", "sidecar"])
def test_one_letter_changed_anywhere_in_the_other_forms_is_an_error(form, tmp_path):
    path = write_notebook(session_notebook(EVERYTHING, options=FORMS[form]), tmp_path / "s.ipynb")
    changed = path if form == "portable" else tmp_path / sidecar_name(path)
    text = changed.read_text()
    for word in (
        ("line of a long result",) if form == "sidecar" else ("It was about a.py", "go on", "half a pair", "vote")
    ):
        assert word in text
        changed.write_text(text.replace(word, "x" + word[1:]))
        with pytest.raises(RecordingError, match=r"^cell [23], "):
            read_recording(load_notebook(path))


def in_outputs() -> Any:
    """As a front end saved it: a record in the last output of each cell."""
    cells = []
    for number, record in ((0, EVERYTHING.turns[0]), (0, EVERYTHING.turns[1]), (1, EVERYTHING.undos[0])):
        output = new_output("display_data", {"text/plain": "x"}, metadata=carried_of(EVERYTHING, record, number))
        cells.append(new_code_cell("%%kin\nx", outputs=[output]))
    return json.loads(json.dumps(new_notebook(cells=cells)))


def test_an_edit_of_a_record_in_an_output_is_named_by_its_cell():
    whole = in_outputs()
    assert recording_in_outputs(whole).turns == EVERYTHING.turns
    tried = 0
    for number in range(len(whole["cells"])):
        where = ("cells", number, "outputs", 0, "metadata", "kin_recording")
        for path in places(at(whole, (*where, "record"))):
            for what in ("changed", "removed", "of another type"):
                nb = copy.deepcopy(whole)
                edit(nb, what, (*where, "record", *path))
                with pytest.raises(RecordingError, match=rf"^cell {number + 1}"):
                    recording_in_outputs(nb)
                tried += 1
    assert tried > 300


def test_whatever_stands_in_place_of_a_value_reading_and_saving_end_in_a_sentence_or_in_an_equal_recording():
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
    for number, path in enumerate(places(whole)):
        nb = copy.deepcopy(whole)
        at(nb, path[:-1])[path[-1]] = nasty[number % len(nasty)]
        with suppress(RecordingError):
            loaded = parse_notebook(json.dumps(nb), "n.ipynb")
            if "kin" not in path and "data" not in path:  # what saving reads
                assert session_notebook(EVERYTHING, source_nb=loaded)["cells"]
            assert read_recording(loaded).turns == EVERYTHING.turns, path
