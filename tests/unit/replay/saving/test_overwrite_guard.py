"""What is not written over: turns, what moved the conversation, and later versions' records that the saved session has not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.core.records import ClearRecord, RecordedCall, RecordedStep, TurnRecord
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.output_records import BACKUP_KEY
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import empty_notebook, session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.overwrite_guard import missing_records
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_notebook, without_results
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.everything import EVERYTHING
from tests.unit.replay.sessions import carried_of, recording, turn, undo


def answered(number: int, reply: str, *, command: str = "", steps: int = 1, **fields: Any) -> TurnRecord:
    """The turn of a prompt that is always the same, so that the first request is too."""
    call = RecordedCall(id="c1", name="bash", arguments=f'{{"command": "{command}"}}', status="ok", output="42 files")
    made = [RecordedStep(fingerprint=f"f{n}", content=reply, calls=(call,) if command else ()) for n in range(steps)]
    return turn(number, "What does ACME have?", steps=tuple(made), **fields)


def as_session(session: str, talk: Recording) -> Recording:
    return replace(talk, meta=talk.meta.model_copy(update={"session": session}))


def missing(held: Recording, ours: Recording) -> str:
    return missing_records(session_notebook(held), session_notebook(ours))


TALK = recording(answered(1, "ACME has much.", command="ls", steps=2), answered(2, "More of ACME."))
LONGER = recording(*TALK.turns, turn(3, "and now?"))
UNDO = undo(TALK.turns[1], to=TALK.turns[0])
LATER = '{"id":"aaaa","note":"x","type":"later"}', '{"note":"y","type":"later"}'


def redacted(talk: Recording, pattern: str = "ACME") -> Recording:
    return clean_notebook(empty_notebook(), talk, NotebookRedactor((re.compile(pattern),)))


@each_row(
    "ours",
    {
        "as it was": TALK,
        "gone on": LONGER,
        "gone on in a session of its own": as_session("another", LONGER),
        "redacted": redacted(TALK),
        "without results": without_results(TALK),
        "all of it": without_results(redacted(LONGER)),
        "undone since": recording(*TALK.turns, UNDO),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_session_replaces_its_own_earlier_state(ours):
    assert missing(TALK, ours[1]) == ""
    assert missing(redacted(TALK), ours[1]) == ""


@pytest.mark.parametrize("portable", [False, True])
def test_it_does_so_in_every_form_of_the_file(tmp_path, portable):
    options = SaveOptions(portable=portable, sidecar=not portable)
    path = write_notebook(session_notebook(TALK, options=options), tmp_path / "talk.ipynb")
    write_notebook(session_notebook(as_session("another", LONGER)), path)
    assert read_recording(load_notebook(path)).session == "another"


def test_another_session_that_was_asked_the_same_and_answered_alike_is_not_replaced(tmp_path):
    theirs = as_session("theirs", recording(TALK.turns[0], TALK.turns[1].model_copy(update={"id": "b" * 16})))
    path = write_notebook(session_notebook(theirs), tmp_path / "talk.ipynb")
    before = path.read_bytes()
    with pytest.raises(
        RecordingError, match=r"(?s)^Not saved: talk\.ipynb has turn 2 of session theirs, .* compare both: kin-nb diff$"
    ):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


def test_another_run_of_the_same_turn_in_one_session_is_not_replaced(tmp_path):
    again = recording(TALK.turns[0], TALK.turns[1].model_copy(update={"id": "b" * 16, "seq": 3}))
    assert missing(TALK, again) == "turn 2"
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    with pytest.raises(RecordingError, match=r"(?s)has turn 2 of session 5b1c-ses, .* combine both: kin-nb merge"):
        write_notebook(session_notebook(again), path)


def test_a_turn_that_the_log_had_cut_off_may_have_continued():
    cut = recording(answered(1, "ACME has much.", command="ls", outcome="running"))
    assert missing(cut, TALK) == ""
    assert missing(TALK, cut) == "turns 1, 2"


def test_what_moved_the_conversation_and_what_a_later_version_recorded_are_not_lost_either(tmp_path):
    held = recording(*TALK.turns, UNDO, unknown_records=LATER)
    assert missing(held, TALK) == "undo, a record of type later"
    assert missing(held, replace(held, unknown_records=LATER[:1])) == "a record of type later"
    assert missing(held, replace(held, unknown_records=LATER[1:])) == "a record of type later"
    assert missing(held, redacted(held, "42")) == ""
    other = undo(TALK.turns[1], to=TALK.turns[0], id="c" * 16)
    assert missing(held, recording(*TALK.turns, other, unknown_records=LATER)) == "undo"
    path = write_notebook(session_notebook(held), tmp_path / "talk.ipynb")
    with pytest.raises(RecordingError, match=r"has undo, a record of type later of session 5b1c-ses, which"):
        write_notebook(session_notebook(TALK), path)


def test_turns_come_first_and_each_kind_of_move_is_named_once():
    assert missing(EVERYTHING, TALK) == "turns 1, 2, undo, redo, compact, clear, a record of type vote"
    twice = (UNDO, undo(TALK.turns[1], to=TALK.turns[0], seq=4))
    assert missing(recording(*TALK.turns, *twice), TALK) == "undo"


@pytest.mark.parametrize("kept", [False, True])
def test_what_only_an_output_holds_is_not_lost_either(tmp_path, kept):
    """A front end saved the session notebook after the person had gone on in it."""
    cleared = ClearRecord(id="d" * 16, parent=TALK.turns[1].head, seq=3, cell_id="c")
    nb = session_notebook(TALK)
    metadata = carried_of(TALK, cleared)
    if kept:
        metadata = {BACKUP_KEY: [{"cell": "c", "carried": each} for each in metadata.values()]}
    output = new_output("display_data", {"text/plain": "x"}, metadata=metadata)
    nb["cells"].append(new_code_cell("%kin clear", id="c", outputs=[] if kept else [output]))
    nb["cells"][1]["outputs"] += [output] if kept else []
    path = tmp_path / "talk.ipynb"
    path.write_text(json.dumps(nb))
    before = path.read_bytes()
    with pytest.raises(
        RecordingError, match=r"^Not saved: talk\.ipynb has clear of session 5b1c-ses, which this session does not have"
    ):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(recording(*TALK.turns, cleared)), path)


def spoilt(path, change) -> bytes:
    """The file after `change` of its JSON value."""
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    return path.read_bytes()


def records(raw):
    return [record for cell in raw["cells"] for record in cell["metadata"].get("kin", {}).get("records", [])]


def another_word(raw):
    records(raw)[1]["prompt"] = "More of it?"


def a_cell_less(raw):
    del raw["cells"][1]


def no_record_any_more(raw):
    raw["cells"][1]["metadata"]["kin"]["records"][0] = 3


def another_metadata(raw):
    raw["metadata"]["kin"]["model"] = "x"


def nbmerged(raw):
    raw["metadata"]["nbdime-conflicts"] = {}


DAMAGES = [another_word, a_cell_less, another_metadata]


@pytest.mark.parametrize("damage", [*DAMAGES, no_record_any_more])
def test_a_damaged_notebook_of_another_session_is_not_replaced(tmp_path, damage):
    theirs = recording(*(each.model_copy(update={"id": f"f{each.id[1:]}", "parent": None}) for each in LONGER.turns))
    path = write_notebook(session_notebook(as_session("theirs", theirs)), tmp_path / "talk.ipynb")
    before = spoilt(path, damage)
    with pytest.raises(
        RecordingError, match=r"(?s)^Not saved: talk\.ipynb has turns .*2, 3.* of session theirs, which this session"
    ):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [*DAMAGES, no_record_any_more])
def test_nor_is_one_that_continues_further_from_the_same_turns(tmp_path, damage):
    path = write_notebook(session_notebook(as_session("theirs", LONGER)), tmp_path / "talk.ipynb")
    before = spoilt(path, damage)
    with pytest.raises(
        RecordingError,
        match=r"(?s)^Not saved: talk\.ipynb has turn 3.* of session theirs, which this session does not have",
    ):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


def test_what_a_merge_left_unfinished_is_replaced_by_none(tmp_path):
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    before = spoilt(path, nbmerged)
    with pytest.raises(RecordingError, match=r"Not saved: nbmerge left a conflict in"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


def test_one_whose_sidecar_is_not_here_is_replaced_by_what_has_its_records_alone(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SaveOptions(sidecar=True)), tmp_path / "talk.kin.ipynb")
    (tmp_path / "talk.kin.json").unlink()
    before = path.read_bytes()
    other = recording(*(each.model_copy(update={"id": f"f{each.id[1:]}", "parent": None}) for each in session.turns))
    with pytest.raises(RecordingError, match=r"^Not saved: talk\.kin\.ipynb has turns 1, 2 of session 5b1c-ses"):
        write_notebook(session_notebook(as_session("another", other)), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(session), path)
    assert read_recording(load_notebook(path)) == session, "the session itself has all of it"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_notebook_is_repaired_by_a_save_of_its_session_and_of_no_less(tmp_path, damage):
    path = write_notebook(session_notebook(LONGER), tmp_path / "talk.ipynb")
    before = spoilt(path, damage)
    with pytest.raises(
        RecordingError,
        match=r"^Not saved: talk\.ipynb has turn 3 of session 5b1c-ses, which this session does not have",
    ):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(LONGER), path)
    assert read_recording(load_notebook(path)) == LONGER


def test_a_damaged_turn_is_known_by_its_id_also_when_another_cell_asks_it_now(tmp_path):
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    spoilt(path, another_word)
    moved = tuple(each.model_copy(update={"cell_id": f"c{each.turn}"}) for each in TALK.turns)
    write_notebook(session_notebook(replace(TALK, records=moved)), path)
    before = spoilt(path, another_word)
    other = recording(TALK.turns[0], answered(2, "Nothing.", id="b" * 16))
    with pytest.raises(RecordingError, match=r"^Not saved: talk\.ipynb has turn 2 of session 5b1c-ses"):
        write_notebook(session_notebook(other), path)
    assert path.read_bytes() == before


def test_a_record_that_is_none_any_more_is_nobodys_to_replace(tmp_path):
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    before = spoilt(path, no_record_any_more)
    with pytest.raises(RecordingError, match=r"^Not saved: talk\.ipynb has an unreadable record in cell 2 of session"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


def test_a_damaged_undo_is_known_too_and_what_a_later_version_wrote_stays(tmp_path):
    held = recording(*TALK.turns, UNDO)
    path = write_notebook(session_notebook(held), tmp_path / "talk.ipynb")
    before = spoilt(path, lambda raw: records(raw)[-1].update(turns=[1]))
    with pytest.raises(RecordingError, match=r"^Not saved: talk\.ipynb has undo of session"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(held), path)
    spoilt(path, lambda raw: records(raw)[0].update(prompt="x"))
    before = spoilt(path, lambda raw: records(raw)[1].update(colour="red"))
    with pytest.raises(
        RecordingError, match="has data of another kin_nb version: cell 3, turn 2: field colour is unknown"
    ):
        write_notebook(session_notebook(held), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", [1, 3, 2.5])
def test_a_notebook_in_another_format_is_left_alone(tmp_path, form):
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    before = spoilt(path, lambda raw: raw["metadata"]["kin"].update(format=form))
    with pytest.raises(RecordingError, match=rf"has data of another kin_nb version: Recorded in format {form} by"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before
