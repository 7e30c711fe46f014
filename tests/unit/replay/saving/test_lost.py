"""What is not written over: turns, undos and later versions' records that the saved session has not."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from kin_nb.core.session.records import Place, RecordedCall, RecordedStep, UndoRecord
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.lost import lost
from kin_nb.replay.saving.making import empty_notebook, session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.privacy import Cleaner, clean_notebook, without_results
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import recording, turn


def answered(number: int, reply: str, *, milliseconds: int = 1200, command: str = "", steps: int = 1):
    """The turn of a prompt that is always the same, so that the first request is too."""
    call = RecordedCall(id="c1", name="bash", arguments=f'{{"command": "{command}"}}', status="ok", output="42 files")
    made = [RecordedStep(fingerprint=f"f{n}", content=reply, calls=(call,) if command else ()) for n in range(steps)]
    return turn(number, "What does ACME have?", steps=tuple(made), milliseconds=milliseconds)


def undone(*turns: int, at: int) -> UndoRecord:
    return UndoRecord(at=at, turns=turns, to=Place(turn=turns[0] - 1, step=99))


def as_session(session: str, talk: Recording) -> Recording:
    return replace(talk, session=session, meta=talk.meta.model_copy(update={"session": session}))


TALK = recording(answered(1, "ACME has much.", command="ls", steps=2), answered(2, "More of ACME."))
LONGER = replace(TALK, turns=(*TALK.turns, turn(3, "and now?")))


def redacted(talk: Recording, pattern: str = "ACME") -> Recording:
    return clean_notebook(empty_notebook(), talk, Cleaner((re.compile(pattern),)))


@pytest.mark.parametrize(
    "ours",
    {
        "as it was": TALK,
        "gone on": LONGER,
        "gone on in a session of its own": as_session("another", LONGER),
        "redacted": redacted(TALK),
        "without results": without_results(TALK),
        "all of it": without_results(redacted(LONGER)),
        "undone since": replace(TALK, undos=(undone(2, at=2),)),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_session_replaces_its_own_earlier_state(ours):
    assert lost(TALK, ours[1]) == ""
    assert lost(redacted(TALK), ours[1]) == ""


@pytest.mark.parametrize("portable", [False, True])
def test_it_does_so_in_every_form_of_the_file(tmp_path, portable):
    options = SaveOptions(portable=portable, sidecar=not portable)
    path = write_notebook(session_notebook(TALK, options=options), tmp_path / "talk.ipynb")
    write_notebook(session_notebook(as_session("another", LONGER)), path)
    assert read_recording(load_notebook(path)).session == "another"


@pytest.mark.parametrize(
    "other",
    {
        "another reply": answered(2, "Nothing."),
        "another call": answered(2, "More of ACME.", command="ls"),
        "the same reply at another time": answered(2, "More of ACME.", milliseconds=900),
        "more steps": answered(2, "More of ACME.", steps=2),
    }.items(),
    ids=lambda case: case[0],
)
def test_another_session_that_was_asked_the_same_is_not_replaced(tmp_path, other):
    theirs = as_session("theirs", replace(TALK, turns=(TALK.turns[0], other[1])))
    path = write_notebook(session_notebook(theirs), tmp_path / "talk.ipynb")
    before = path.read_bytes()
    with pytest.raises(
        RecordingError, match=r"^talk\.ipynb holds turn 2 of session theirs, .* kin-nb diff compares both\.$"
    ):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


def test_another_run_of_the_same_turn_in_one_session_is_not_replaced():
    assert lost(TALK, replace(TALK, turns=(TALK.turns[0], answered(2, "Nothing.")))) == "turn 2"
    silent = recording(turn(1, "a", steps=()))
    assert lost(silent, recording(turn(1, "b", steps=()))) == "turn 1"
    assert lost(silent, silent) == ""


def test_a_turn_that_the_log_had_cut_off_may_have_gone_on():
    cut = recording(
        answered(1, "ACME has much.", command="ls", milliseconds=0).model_copy(update={"outcome": "running"})
    )
    assert lost(cut, TALK) == ""
    assert lost(TALK, cut) == "turns 1, 2"


def test_undos_and_what_a_later_version_recorded_are_not_lost_either(tmp_path):
    later, more = '{"note":"x","type":"later"}', '{"note":"y","type":"later"}'
    held = replace(TALK, undos=(undone(2, at=2),), others=(later, more))
    assert lost(held, TALK) == "undo 1, records of type later"
    assert lost(held, replace(held, others=(later,))) == "records of type later"
    assert lost(held, redacted(held, "x")) == ""
    assert lost(held, replace(held, undos=(undone(1, 2, at=2),))) == "undo 1"
    path = write_notebook(session_notebook(held), tmp_path / "talk.ipynb")
    with pytest.raises(RecordingError, match=r"holds undo 1, records of type later of session 5b1c-ses, which"):
        write_notebook(session_notebook(TALK), path)


def spoilt(path, change) -> bytes:
    """The file after `change` of its JSON value."""
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    return path.read_bytes()


def records(raw):
    return [record for cell in raw["cells"] for record in cell["metadata"].get("kin", [])]


def another_word(raw):
    records(raw)[1]["prompt"] = "More of it?"


def a_cell_less(raw):
    raw["cells"] = [cell for cell in raw["cells"] if not any(r["turn"] == 1 for r in cell["metadata"].get("kin", []))]


def no_record_any_more(raw):
    next(cell for cell in raw["cells"] if "kin" in cell["metadata"])["metadata"]["kin"][0] = 3


def another_metadata(raw):
    raw["metadata"]["kin"]["model"] = "x"


def nbmerged(raw):
    raw["metadata"]["nbdime-conflicts"] = {}


DAMAGES = [another_word, a_cell_less, another_metadata]


@pytest.mark.parametrize("damage", [*DAMAGES, no_record_any_more, nbmerged])
def test_a_damaged_notebook_of_another_session_is_not_replaced(tmp_path, damage):
    path = write_notebook(session_notebook(as_session("theirs", LONGER)), tmp_path / "talk.ipynb")
    before = spoilt(path, damage)
    with pytest.raises(
        RecordingError, match=r"^What talk\.ipynb holds does not read, .*: nothing was written\. Choose"
    ):
        write_notebook(session_notebook(TALK), path)
    with pytest.raises(RecordingError, match="nothing was written"):
        write_notebook(session_notebook(TALK), path, in_place=True)
    assert path.read_bytes() == before


def test_nor_is_one_of_another_session_whose_sidecar_is_not_here(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SaveOptions(sidecar=True)), tmp_path / "talk.kin.ipynb")
    (tmp_path / "talk.kin.json").unlink()
    before = path.read_bytes()
    with pytest.raises(RecordingError, match=r"its text is missing from talk\.kin\.json"):
        write_notebook(session_notebook(as_session("another", TALK)), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(session), path)
    assert read_recording(load_notebook(path)) == session, "the session itself has all of it"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_notebook_is_repaired_by_a_save_of_its_session_and_of_no_less(tmp_path, damage):
    path = write_notebook(session_notebook(LONGER), tmp_path / "talk.ipynb")
    before = spoilt(path, damage)
    with pytest.raises(RecordingError, match=r"^talk\.ipynb holds turn 3 of session 5b1c-ses, which this one has not"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(LONGER), path)
    assert read_recording(load_notebook(path)) == LONGER


def test_a_damaged_turn_is_known_by_its_hashes_also_when_another_cell_asks_it_now(tmp_path):
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    spoilt(path, another_word)
    moved = tuple(each.model_copy(update={"cell_id": f"c{each.turn}"}) for each in TALK.turns)
    write_notebook(session_notebook(replace(TALK, turns=moved)), path)
    before = spoilt(path, another_word)
    with pytest.raises(RecordingError, match=r"^talk\.ipynb holds what does not read in cell 3 of session 5b1c-ses"):
        write_notebook(session_notebook(replace(TALK, turns=(TALK.turns[0], answered(2, "Nothing.")))), path)
    assert path.read_bytes() == before


def test_a_record_that_is_none_any_more_is_nobodys_to_replace(tmp_path):
    path = write_notebook(session_notebook(TALK), tmp_path / "talk.ipynb")
    before = spoilt(path, no_record_any_more)
    with pytest.raises(RecordingError, match=r"^talk\.ipynb holds what does not read in cell 2 of session"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before


def test_a_damaged_undo_is_known_too_and_what_a_later_version_wrote_stays(tmp_path):
    held = replace(TALK, undos=(undone(2, at=2),))
    path = write_notebook(session_notebook(held), tmp_path / "talk.ipynb")
    before = spoilt(path, lambda raw: records(raw)[-1].update(turns=[1]))
    with pytest.raises(RecordingError, match="holds what does not read in cell 4 of session"):
        write_notebook(session_notebook(TALK), path)
    assert path.read_bytes() == before
    write_notebook(session_notebook(held), path)
    spoilt(path, lambda raw: records(raw)[0].update(prompt="x"))
    before = spoilt(path, lambda raw: records(raw)[1].update(colour="red"))
    with pytest.raises(RecordingError, match="would lose what a later version wrote"):
        write_notebook(session_notebook(held), path)
    assert path.read_bytes() == before
