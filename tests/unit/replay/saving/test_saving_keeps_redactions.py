"""A file that was saved with something taken out: a later save does not put it back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.core.redaction import SECRET
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import empty_notebook, session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_notebook, without_results
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import LONG, recording, turn

PUT_BACK = (
    r"^Not saved: talk\.ipynb was saved {} \(cell {}\), and this save would bring that back\.\nSave with {} again"
)
FORMS = {"plain": SaveOptions(), "portable": SaveOptions(portable=True), "sidecar": SaveOptions(sidecar=True)}


def asked(number: int, prompt: str, reply: str, output: str) -> TurnRecord:
    call = RecordedCall(id="c1", name="bash", arguments='{"command": "ls"}', status="ok", output=output)
    steps = (RecordedStep(fingerprint="f", content=reply, calls=(call,)),)
    return turn(number, prompt, cell_id=f"c{number}", steps=steps)


TALK = recording(asked(1, "What is it?", "Nothing.", "a.py"), asked(2, "Call ACME at 5.", "ACME was called.", LONG))


def redacted(talk: Recording, *patterns: str) -> Recording:
    return clean_notebook(empty_notebook(), talk, NotebookRedactor(tuple(map(re.compile, patterns))))


def written(folder: Path, talk: Recording, options: SaveOptions = FORMS["plain"]) -> Path:
    return write_notebook(session_notebook(talk, options=options), folder / "talk.ipynb")


@pytest.mark.parametrize("form", FORMS)
def test_text_that_was_taken_out_is_not_put_back(tmp_path, form):
    path = written(tmp_path, redacted(TALK, "ACME"), FORMS[form])
    before = path.read_text()
    cell = 4 if form == "portable" else 3
    with pytest.raises(RecordingError, match=PUT_BACK.format("with redactions", f"{cell}, turn 2", "--redact PATTERN")):
        written(tmp_path, TALK, FORMS[form])
    assert path.read_text() == before


@pytest.mark.parametrize("form", FORMS)
def test_results_that_were_left_out_are_not_put_back(tmp_path, form):
    path = written(tmp_path, without_results(TALK), FORMS[form])
    before = path.read_text()
    cell = 3 if form == "portable" else 2
    with pytest.raises(RecordingError, match=PUT_BACK.format("without results", f"{cell}, turn 1", "--no-results")):
        written(tmp_path, TALK, FORMS[form])
    assert path.read_text() == before


def test_where_both_went_both_options_are_named(tmp_path):
    written(tmp_path, without_results(redacted(TALK, "ACME")))
    with pytest.raises(
        RecordingError, match=r"Save with (--redact PATTERN and --no-results|--no-results and --redact PATTERN) ag"
    ):
        written(tmp_path, TALK)
    with pytest.raises(RecordingError, match="Save with --redact PATTERN again"):
        written(tmp_path, without_results(TALK))
    with pytest.raises(RecordingError, match="Save with --no-results again"):
        written(tmp_path, redacted(TALK, "ACME"))


def test_a_secret_that_is_not_known_any_more_is_not_put_back(tmp_path):
    written(
        tmp_path,
        clean_notebook(empty_notebook(), TALK, NotebookRedactor(secrets=lambda text: text.replace("ACME", SECRET))),
    )
    with pytest.raises(RecordingError, match="was saved with redactions"):
        written(tmp_path, TALK)


@pytest.mark.parametrize("patterns", [["at 5"], ["AC"], ["Call"], ["ACME at"]])
def test_another_pattern_that_leaves_some_of_it_is_not_enough(tmp_path, patterns):
    written(tmp_path, redacted(TALK, "ACME"))
    with pytest.raises(RecordingError, match="was saved with redactions"):
        written(tmp_path, redacted(TALK, *patterns))


@each_row("patterns", [["ACME"], ["ACME", "at 5"], ["ACME( at)?"], ["[A-Z]{4}.*"], [".+"]])
def test_the_same_pattern_or_one_that_takes_out_more_is(tmp_path, patterns):
    path = written(tmp_path, redacted(TALK, "ACME"))
    written(tmp_path, redacted(TALK, *patterns))
    assert "ACME" not in path.read_text()


def test_what_is_saved_again_as_it_stands_or_continues_is_written(tmp_path):
    reduced = without_results(redacted(TALK, "ACME"))
    path = written(tmp_path, reduced)
    written(tmp_path, reduced)
    more = recording(*reduced.turns, asked(3, "And?", "ACME!", "b.py"))
    written(tmp_path, more)
    assert [each.prompt for each in read_recording(load_notebook(path)).turns] == [
        "What is it?",
        "Call [redacted] at 5.",
        "And?",
    ]


def test_a_damaged_record_is_repaired_without_what_was_taken_out(tmp_path):
    nb = session_notebook(redacted(TALK, "ACME"))
    nb["cells"][2]["metadata"]["kin"]["records"][0]["milliseconds"] = 5
    path = write_notebook(nb, tmp_path / "talk.ipynb")
    with pytest.raises(RecordingError, match="was saved with redactions"):
        written(tmp_path, TALK)
    written(tmp_path, redacted(TALK, "ACME"))
    assert [each.prompt for each in read_recording(load_notebook(path)).turns] == [
        "What is it?",
        "Call [redacted] at 5.",
    ]


def test_a_prompt_that_speaks_of_marks_is_its_own_text(tmp_path):
    """Nothing was taken out of it: the record is as it was."""
    talk = recording(asked(1, "What does [redacted] mean?", "That [secret] was taken out.", "[redacted]"))
    source = new_notebook(cells=[new_code_cell("%%kin\nWhat does [redacted] mean?", id="c1")])
    for _ in range(2):
        path = write_notebook(session_notebook(talk, source_nb=source), tmp_path / "talk.ipynb")
    assert read_recording(load_notebook(path)) == talk
