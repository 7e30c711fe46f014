"""What the first cell of a session notebook says: of what was saved, whatever happened to the cells since."""

from __future__ import annotations

from kin_nb.core.records import canonical_json
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.playback.player import playback_notice
from kin_nb.replay.saving.build import session_notebook
from tests.unit.replay.sessions import SESSION, recording, turn

TALK = recording(*(turn(n, text, cell_id=text) for n, text in enumerate("abc", 1)))


def said(whole) -> str:
    return str(playback_notice(whole).data["text/plain"])


def test_the_notice_says_what_was_recorded_by_what_and_that_no_model_is_called():
    text = said(TALK)
    assert f"Session {SESSION}" in text
    assert "3 records, made with m by kin_nb 0.1.0." in text
    assert "no model is called, no tool runs, no file is written" in text
    assert "1 record, made" in said(recording(turn(1, "a")))


def test_the_notice_shows_the_same_bytes_whatever_was_deleted_or_pasted_since():
    nb = session_notebook(TALK)
    assert nb["cells"][0]["outputs"][0]["data"] == playback_notice(TALK).data
    pasted = session_notebook(recording(turn(9, "x")))["cells"][1]
    del nb["cells"][2]
    assert playback_notice(read_recording(nb)) == playback_notice(TALK)
    nb["cells"].append({**pasted, "id": "pasted"})
    assert playback_notice(read_recording(nb)) == playback_notice(TALK)


def test_records_of_a_later_version_are_named():
    others = tuple(canonical_json({"type": kind, "n": n}) for n, kind in enumerate(("vote", "poll", "vote")))
    assert "kept but not played: poll, vote." in said(recording(turn(1, "a"), unknown_records=others))
