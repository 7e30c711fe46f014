"""Files that are no session notebooks, or no longer: each works, or is refused in a sentence that says what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.records import FileChange, RecordedCall, RecordedStep
from kin_nb.render import render_record
from kin_nb.replay.book import Book
from kin_nb.replay.errors import NoRecordingError, RecordingError, RecordingNotFoundError, UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import MAX_BYTES, load_notebook
from kin_nb.replay.format.storage import recording_cell_source, sidecar_name
from kin_nb.replay.playback.locate import embedded_recording, find_recording
from kin_nb.replay.playback.player import Playback
from kin_nb.replay.playback.process_context import ProcessContext
from kin_nb.replay.recording import Recording, WorkspaceMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.everything import EVERYTHING, META
from tests.unit.replay.sessions import SESSION, recording, turn

DIGEST = EVERYTHING.digest[:12]
DEEP = 200_000
TO_DO = re.compile(
    r"kin-nb save|[Rr]estore|Update kin_nb|Convert it|Clear the outputs|no notebook is|is not a notebook|--from PATH"
)


@pytest.fixture
def path(tmp_path) -> Path:
    return write_notebook(session_notebook(EVERYTHING), tmp_path / "own.ipynb")


def played(path: Path) -> Recording:
    """As `%kin replay` does it in a front end that names the notebook's file."""
    around = ProcessContext(path.parent, {"JPY_SESSION_NAME": str(path)}, pause=lambda _: None)
    return find_recording(SESSION, DIGEST, context=around).recording


def refused(path: Path) -> str:
    """The message, which says what to do."""
    with pytest.raises((RecordingError, RecordingNotFoundError)) as caught:
        played(path)
    said = str(caught.value)
    assert TO_DO.search(said), said
    assert len(said) < 1000
    return said


def edited(path: Path, change: Any) -> Path:
    nb = json.loads(path.read_text())
    change(nb)
    path.write_text(json.dumps(nb))
    return path


def test_cut_off_anywhere_it_is_refused_by_its_name(path):
    whole = path.read_bytes()
    for end in range(0, len(whole) - 2, len(whole) // 40):
        path.write_bytes(whole[:end])
        with pytest.raises(UnreadableNotebookError, match=r"^own\.ipynb (is not|is no)"):
            load_notebook(path)
    path.write_bytes(whole)
    assert played(path) == EVERYTHING


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@each_row("where", ["metadata", "cell metadata", "an output", "a record", "the list of records"])
def test_nested_too_deep_it_is_refused_before_it_is_parsed(path, where):
    places = {
        "metadata": '"metadata": {\n  "kin"',
        "cell metadata": '"metadata": {\n    "kin"',
        "an output": '"data": {\n      "text/html"',
        "a record": '"arguments"',
        "the list of records": '"2222222222222222"',
    }
    text = path.read_text()
    at = places[where]
    name = at.rpartition('"')[0].rpartition('"')[2]
    found = re.search(rf'"{name}"', text)
    assert found
    path.write_text(f'{text[: found.start()]}"deep": {nested(DEEP)}, {text[found.start() :]}')
    assert "nested deeper than 200 levels" in refused(path)


def test_nested_too_deep_within_a_text_it_is_refused_too(path, tmp_path):
    deep = nested(DEEP)
    name = EVERYTHING.name
    with pytest.raises(RecordingError, match="is not a saved recording"):
        embedded_recording(name, f'{{"kin": {deep}, "cells": []}}')
    portable = {"cell_type": "code", "metadata": {}, "outputs": [], "source": recording_cell_source(name) + deep}
    edited(path, lambda nb: nb["cells"].insert(0, portable))
    assert played(path) == EVERYTHING, "what is no such text does not count"
    edited(path, lambda nb: nb["cells"][2]["metadata"]["kin"]["records"][0]["steps"][0].update(content={"json": deep}))
    assert "not an escaped text" in refused(path)


def test_a_sidecar_that_is_damaged_is_as_one_that_is_missing(tmp_path):
    path = write_notebook(session_notebook(EVERYTHING, options=SaveOptions(sidecar=True)), tmp_path / "own.ipynb")
    beside = tmp_path / sidecar_name(path)
    whole = beside.read_text()
    for text in ("", "[]", '{"blobs": []}', '{"blobs": {"x": 1}}', whole[:-9], nested(DEEP), '{"blobs": NaN}'):
        beside.write_text(text)
        assert f"its text is missing from {beside.name}" in refused(path)
    beside.unlink()
    beside.mkdir()
    assert "its text is missing" in refused(path)
    beside.rmdir()
    assert "its text is missing from own.kin.json" in refused(path)
    beside.write_text(whole)
    assert played(path) == EVERYTHING


def test_a_huge_file_is_refused_by_its_size_and_never_read(path):
    with path.open("r+b") as file:
        file.truncate(MAX_BYTES * 1024)  # no disk has to hold it
    assert "larger than 64 MB" in refused(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(path, number):
    path.write_text(path.read_text().replace('"prompt_tokens": 10', f'"prompt_tokens": {number}'))
    assert f"{number} is not a JSON number" in refused(path)


@pytest.mark.parametrize("number", ["1e999", "1.5", "10" * 400, "1e300"])
def test_a_number_that_no_record_has_is_named_by_its_field(path, number):
    path.write_text(path.read_text().replace('"prompt_tokens": 10', f'"prompt_tokens": {number}'))
    assert refused(path).startswith("own.ipynb, cell 3, turn 2, step 1: ")


def test_a_number_with_more_digits_than_python_reads_is_refused(path):
    path.write_text(path.read_text().replace('"prompt_tokens": 10', f'"prompt_tokens": {"9" * 9999}'))
    assert "not complete JSON" in refused(path)


def test_lone_surrogates_anywhere_do_no_harm(path):
    def change(nb: Any) -> None:
        nb["cells"][0]["metadata"]["\ud800"] = "\udfff"
        nb["cells"].append({"cell_type": "markdown", "id": "\ud800", "metadata": {}, "source": "\ud83d"})
        nb["metadata"]["kin"]["later"] = ["\ud800"]

    assert played(edited(path, change)) == EVERYTHING


@each_row("kin", [None, "x", [], {}, {"format": "1"}, {"trust": True}])
def test_a_foreign_notebook_whatever_it_keeps_under_our_key(path, kin):
    edited(path, lambda nb: nb["metadata"].update(kin=kin))
    with pytest.raises(NoRecordingError, match=rf"kin-nb save {SESSION}"):
        read_recording(load_notebook(path))
    assert "kin-nb save" in refused(path)


def test_a_later_format_is_refused_and_what_it_is_is_reported(path):
    edited(path, lambda nb: nb["metadata"]["kin"].update(format=3, kin_nb="9.0"))
    assert "Recorded in format 3 by kin_nb 9.0; this version reads format 2.\nUpdate kin_nb" in refused(path)


def test_another_systems_paths_are_texts(tmp_path):
    """They play and save as they are; nothing looks for them."""
    change = FileChange(path="C:\\work\\a.py", before=None, after="2" * 64, patch="--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n")
    call = RecordedCall(
        id="c", name="write_file", arguments='{"path": "C:\\\\work\\\\a.py"}', status="ok", files=(change,)
    )
    workspace = WorkspaceMeta(path="..\\..\\Users\\me\\project")
    whole = recording(turn(1, "go", steps=(RecordedStep(calls=(call,)),)), workspace=workspace)
    path = write_notebook(session_notebook(whole), tmp_path / "own.ipynb")
    found = read_recording(load_notebook(path))
    assert found == whole
    (shown,), _ = Playback(Book.collect(load_notebook(path))).play(whole.turns[0].key, None)
    assert "a.py" in str([output.data for output in render_record(shown)])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["own.ipynb"]


@each_row("name", ["../s.json", "/etc/passwd", "a/b.json", "..", "C:\\x.json", "x.json\0", ".json", "", 5, None])
def test_a_sidecars_name_that_leads_elsewhere_is_none(tmp_path, name):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = write_notebook(session_notebook(EVERYTHING, options=SaveOptions(sidecar=True)), folder / "own.ipynb")
    (folder / sidecar_name(path)).rename(tmp_path / "s.json")
    edited(path, lambda nb: nb["metadata"]["kin"].update(sidecar=name))
    assert "its text is missing" in refused(path)


@each_row("session", ["../../x", "a/b", "", "x" * 65, "a b", "\ud800", 5, None, ["x"]])
def test_a_session_that_is_no_id_is_refused(path, session):
    edited(path, lambda nb: nb["metadata"]["kin"].update(session=session))
    with pytest.raises(RecordingError, match=r"kin\.session"):
        read_recording(load_notebook(path))


CARRIED_BY_NOBODY = ({}, {"session": {"session": "../x"}}, {"session": META.model_dump(), "record": []})


@pytest.mark.parametrize("claimed", CARRIED_BY_NOBODY)
def test_what_carries_a_record_in_an_output_and_is_none_is_refused(path, claimed):
    nb = load_notebook(path)
    nb["cells"][1]["outputs"][0]["metadata"]["kin_recording"] = claimed
    with pytest.raises(RecordingError, match=r"^cell 2"):
        Book.collect(nb)


@pytest.mark.parametrize("claimed", CARRIED_BY_NOBODY)
def test_what_the_first_cell_keeps_of_a_record_and_is_none_is_refused_where_its_cell_is_there(path, claimed):
    nb = load_notebook(path)
    kept = [{"cell": nb["cells"][1]["id"], "carried": claimed}, {"cell": "gone", "carried": claimed}]
    nb["cells"][0]["outputs"][0]["metadata"]["kin_kept"] = kept
    with pytest.raises(RecordingError, match=r"^cell 2"):
        Book.collect(nb)
    nb["cells"][0]["outputs"][0]["metadata"]["kin_kept"] = kept[1:]
    assert Book.collect(nb).recording.records == EVERYTHING.records


@each_row("kin", [5, "x", [], {}, {"records": 5}, {"records": {"a": 1}}, {"records": None}])
@each_row("home", ["first", "gone"])
def test_a_portable_notebook_whose_records_are_none_is_refused_in_a_sentence(tmp_path, home, kin):
    """Also where the cell of those records is not there any more."""
    path = write_notebook(session_notebook(EVERYTHING, options=SaveOptions(portable=True)), tmp_path / "own.ipynb")
    nb = load_notebook(path)
    text = nb["cells"][1]["source"]
    head, _, body = text.partition("\n")
    value = json.loads(body)
    value["cells"][0] |= {"id": home, "kin": kin}
    edited(path, lambda nb: nb["cells"][1].update(source=f"{head}\n{json.dumps(value)}"))
    with pytest.raises(RecordingError, match=r"^cell \d+: its `kin` metadata has no list of records"):
        read_recording(load_notebook(path))
    with pytest.raises(RecordingError, match=r"^cell 1: its `kin` metadata has no list of records"):
        embedded_recording(EVERYTHING.name, json.dumps(value))


@pytest.mark.parametrize("blobs", [5, "x", [5], None])
def test_a_portable_notebook_whose_long_texts_are_none_says_that_they_are_missing(tmp_path, blobs):
    path = write_notebook(session_notebook(EVERYTHING, options=SaveOptions(portable=True)), tmp_path / "own.ipynb")
    head, _, body = load_notebook(path)["cells"][1]["source"].partition("\n")
    value = json.loads(body)
    value["cells"][1]["id"] = "gone"
    value["cells"][1]["kin"]["blobs"] = blobs
    edited(path, lambda nb: nb["cells"][1].update(source=f"{head}\n{json.dumps(value)}"))
    with pytest.raises(RecordingError, match=r"^cell 2, turn 2, step 1: field calls\.2\.output: its text is missing"):
        read_recording(load_notebook(path))
