"""What is not written over: turns, undos and later versions' records that the saved session has not."""

from __future__ import annotations

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


def calibrated(talk: Recording) -> Recording:
    step = talk.turns[0].steps[0]
    call = step.calls[0].model_copy(update={"varies": (1,)})
    first = talk.turns[0].model_copy(
        update={"steps": (step.model_copy(update={"calls": (call,)}), *talk.turns[0].steps[1:])}
    )
    return replace(talk, turns=(first, *talk.turns[1:]))


@pytest.mark.parametrize(
    "ours",
    {
        "as it was": TALK,
        "gone on": LONGER,
        "gone on in a session of its own": as_session("another", LONGER),
        "redacted": redacted(TALK),
        "without results": without_results(TALK),
        "calibrated": calibrated(TALK),
        "all of it": without_results(redacted(calibrated(LONGER))),
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
