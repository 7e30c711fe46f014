"""The answer to a cell is looked for in the log: a session that went on from the recording, and did not take it back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kin_nb.core.config.kin_config import SessionLoggingConfig
from kin_nb.core.session.log import LOG_NAME, SessionLog, session_log
from kin_nb.core.session.records import END, Place, TurnRecord, UndoRecord
from kin_nb.core.session.store import SessionStore
from kin_nb.replay.cells.matching import Undoing, following_key
from kin_nb.replay.format.carrying import AFTER, KEY
from kin_nb.replay.format.gone_on import GoneOn
from kin_nb.replay.playback.from_log import Logged, logged_sessions, until_answer, until_shown, until_undo
from kin_nb.replay.recording import Recording
from tests.unit.replay.sessions import SESSION, recording, turn

HEADER = {"format": 1, "model": "m", "commit": None, "system_prompt": "b" * 64, "tools": "c" * 64}
TALK = recording(turn(1, "a", cell_id="c1"), turn(2, "b", cell_id="c2"))
LOST = turn(3, "c", cell_id="lost")
NEXT = turn(4, "d", cell_id="next")


@pytest.fixture
def settings(tmp_path, monkeypatch) -> SessionLoggingConfig:
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    return SessionLoggingConfig()


@pytest.fixture
def logged(settings, tmp_path):
    """Writes the log of a session that went on from TALK, or from `begins`, with these records."""

    def logged(session: str, *records: TurnRecord | UndoRecord, begins=TALK.turns, settings=settings) -> Path:
        log: SessionLog = session_log(session, settings)
        log.append("session", **HEADER, session=session, workspace=str(tmp_path / "work"), after=SESSION)
        log.append("continued", turns=[each.model_dump(mode="json") for each in begins])
        for record in records:
            kind = "turn" if isinstance(record, TurnRecord) else "undo"
            log.append(kind, record=record.model_dump(mode="json"))
        log.close()
        return log.path

    return logged


@pytest.fixture
def looked_for(settings, tmp_path):
    def looked_for(key=LOST.key, cell="lost", talk=TALK, settings=settings, work=tmp_path / "work") -> GoneOn | None:
        sessions = logged_sessions(SessionStore.configured(settings), work, work, cell, elsewhere=bool(talk.turns))
        return next(filter(None, (until_answer(talk, each, key, cell) for each in sessions)), None)

    return looked_for


def test_it_is_played_after_the_recording_and_what_came_later_is_left_there(logged, looked_for):
    logged("one", LOST, NEXT)
    found = looked_for()
    assert found.recording.turns == (*TALK.turns, LOST)
    assert [*found.carried] == [("turn", 3)]
    kept = found.carried["turn", 3][KEY]
    assert (kept["session"]["session"], kept[AFTER]) == ("one", [SESSION])
    assert looked_for(NEXT.key, "next", found.recording).recording.turns == (*TALK.turns, LOST, NEXT)


def test_what_came_between_is_taken_too(logged, looked_for):
    """Its cell is no longer in the notebook, and still the answer was given after it."""
    logged("one", LOST, NEXT)
    found = looked_for(NEXT.key, "next")
    assert found.recording.turns == (*TALK.turns, LOST, NEXT)
    assert [*found.carried] == [("turn", 3), ("turn", 4)]


@pytest.mark.parametrize(("key", "cell"), [("0" * 64, "lost"), (LOST.key, "other"), (TALK.turns[1].key, "c2")])
def test_another_text_another_cell_and_what_is_recorded_are_not_found(logged, looked_for, key, cell):
    logged("one", LOST)
    assert looked_for(key, cell) is None


@pytest.mark.parametrize("begins", [(turn(1, "else", cell_id="c1"), TALK.turns[1]), TALK.turns[:1], ()])
def test_a_session_that_begins_otherwise_is_none(logged, looked_for, begins):
    logged("one", LOST, begins=begins)
    assert looked_for() is None


def test_the_recordings_own_session_counts_though_texts_were_taken_out_of_that(logged, looked_for):
    logged(SESSION, LOST)
    held = replace(TALK, turns=(TALK.turns[0], turn(2, "[taken out]", cell_id="c2")))
    assert looked_for(talk=held).recording.turns == (*held.turns, LOST)


def test_a_turn_that_the_person_stopped_is_played_and_not_run_again(logged, looked_for):
    stopped = LOST.model_copy(update={"outcome": "interrupted"})
    logged("one", stopped)
    assert looked_for().recording.turns == (*TALK.turns, stopped)


def test_a_session_of_another_folder_counts_where_it_begins_with_what_was_recorded(logged, looked_for, tmp_path):
    """The notebook was copied, or its folder renamed."""
    logged("one", LOST)
    (tmp_path / "other").mkdir()
    assert looked_for(work=tmp_path / "other").recording.turns == (*TALK.turns, LOST)
    assert looked_for(talk=recording(), work=tmp_path / "other") is None


def test_a_turn_that_failed_is_no_answer_unless_the_session_went_on_after_it(logged, looked_for):
    failed = LOST.model_copy(update={"outcome": "error"})
    logged("one", failed)
    assert looked_for() is None
    logged("two", failed, NEXT)
    assert looked_for().recording.turns == (*TALK.turns, failed)


def test_what_was_taken_back_is_played_where_nothing_stands_in_its_place(logged, looked_for):
    """The notebook has the cell that took it back, which is played too."""
    undo = UndoRecord(at=3, turns=(3,), to=Place(turn=2, step=END))
    again = turn(4, "c", cell_id="lost", origin=Place(turn=2, step=END))
    logged("one", LOST, undo)
    assert looked_for().recording.turns == (*TALK.turns, LOST)
    assert looked_for().recording.undos == ()
    logged("two", LOST, undo, again)
    found = looked_for()
    assert found.recording.turns == (*TALK.turns, LOST, again)
    assert found.recording.undos == (undo,)
    assert [*found.carried] == [("turn", 3), ("turn", 4), ("undo", 1)]


def test_sessions_that_cannot_be_read_hide_none(logged, looked_for):
    """The newest have a record of another kind, no header, and nothing."""
    logged("good", LOST)
    for session, damage in (
        ("bad-1", lambda lines: [*lines, b'{"type": "turn", "record": {"turn": "x"}}']),
        ("bad-2", lambda lines: lines[1:]),
        ("bad-3", lambda _: []),
    ):
        path = logged(session, LOST)
        path.write_bytes(b"\n".join(damage(path.read_bytes().splitlines())))
    assert looked_for().recording.session == "good"


def test_newer_sessions_without_the_cell_hide_none_and_are_not_read(logged, looked_for, monkeypatch):
    logged("good", LOST)
    for n in range(30):
        logged(f"newer-{n}", turn(3, "else", cell_id="elsewhere"))
    read: list[str] = []
    find = SessionStore.find
    monkeypatch.setattr(SessionStore, "find", lambda self, name: read.append(name) or find(self, name))
    assert looked_for().recording.session == "good"
    assert read == ["good"]


def test_of_two_the_newest_counts(logged, looked_for):
    logged("1-old", LOST)
    logged("2-new", LOST.model_copy(update={"cost": "0.01"}))
    assert looked_for().recording.session == "2-new"


def test_one_that_somebody_has_open_is_read(logged, looked_for):
    path = logged("one", LOST)
    log = SessionLog.lock("one", path.parent)
    try:
        assert looked_for() is not None
    finally:
        log.close()


def test_encrypted_sessions_are_read_with_their_key_and_passed_by_without(logged, looked_for, settings, tmp_path):
    sealed = settings.model_copy(update={"encrypt": "key-file"})
    logged("sealed", LOST, settings=sealed)
    assert looked_for(settings=sealed).recording.session == "sealed"
    logged("plain", LOST)
    (tmp_path / "home" / "session.key").unlink()
    assert looked_for(settings=sealed).recording.session == "plain"
    assert (tmp_path / "home" / "sessions" / "sealed" / LOG_NAME).exists()


def test_a_flow_is_taken_whole(logged, looked_for):
    follower = turn(4, "review", cell_id="lost").model_copy(update={"key": following_key(LOST.key, 1)})
    logged("one", LOST, follower, turn(5, "e", cell_id="e"))
    assert looked_for().recording.turns == (*TALK.turns, LOST, follower)


UNDO = UndoRecord(at=3, turns=(3,), to=Place(turn=2, step=END))


def session_of(*records: TurnRecord | UndoRecord) -> Logged:
    turns = (*TALK.turns, *(each for each in records if isinstance(each, TurnRecord)))
    undos = tuple(each for each in records if isinstance(each, UndoRecord))
    meta = TALK.meta.model_copy(update={"session": "one"})
    return Logged(Recording("one", turns, meta, undos=undos), SESSION)


def test_an_undo_comes_next_where_the_turn_before_it_was_played():
    session = session_of(LOST, UNDO, turn(4, "d", origin=UNDO.to))
    played = until_answer(TALK, session, LOST.key, "lost").recording
    assert until_undo(TALK, session, Undoing("undo", 1)) is None, "turn 3 comes first"
    assert until_undo(played, session, Undoing("undo", 2)) is None
    found = until_undo(played, session, Undoing("undo", 1))
    assert (found.recording.turns, found.recording.undos) == (played.turns, (UNDO,))
    assert [*found.carried] == [("undo", 1)]
    assert until_undo(found.recording, session, Undoing("undo", 1)) is None


def test_an_undo_of_more_than_stood_took_back_all():
    undo = UndoRecord(at=2, turns=(1, 2), to=Place(turn=0))
    assert until_undo(TALK, session_of(undo), Undoing("undo", 5)).recording.undos == (undo,)
    assert until_undo(TALK, session_of(UndoRecord(at=2, turns=(2,), to=Place(turn=1))), Undoing("undo", 5)) is None


def outputs_hold(*records: TurnRecord, undone: int = 0) -> GoneOn:
    return GoneOn(replace(TALK, turns=(*TALK.turns, *records)), {}, undone=undone)


AGAIN = turn(4, "c", cell_id="lost", origin=UNDO.to)
"""Asked again in its cell."""


def test_all_that_outputs_show_is_taken_with_what_they_lack_of_it():
    whole = session_of(LOST, UNDO, AGAIN, turn(5, "e"))
    # a turn that is gone from the outputs is not what it goes on from there
    found = until_shown(TALK, whole, outputs_hold(AGAIN.model_copy(update={"origin": None}), undone=1))
    assert (found.recording.turns, found.recording.undos, found.undone) == ((*TALK.turns, LOST, AGAIN), (UNDO,), 1)
    assert [*found.carried] == [("turn", 3), ("turn", 4), ("undo", 1)]


def test_an_undo_that_outputs_show_is_taken_with_the_turns_before_it():
    """Also where the cells of those were deleted."""
    undo = UndoRecord(at=4, turns=(3, 4), to=Place(turn=3))
    found = until_shown(TALK, session_of(LOST, NEXT, undo, turn(5, "e")), outputs_hold(undone=1))
    assert (found.recording.turns, found.recording.undos) == ((*TALK.turns, LOST, NEXT), (undo,))


@pytest.mark.parametrize("shown", [turn(3, "another"), turn(3, "c", cell_id="elsewhere"), turn(9, "c", cell_id="lost")])
def test_a_log_that_has_another_answer_than_outputs_show_is_not_of_this_notebook(shown):
    assert until_shown(TALK, session_of(LOST, NEXT), outputs_hold(shown)) is None


def test_a_turn_that_was_asked_again_in_its_cell_brings_what_it_took_back():
    found = until_answer(TALK, session_of(LOST, UNDO, AGAIN), LOST.key, "lost")
    assert [(number, undo) for number, cards in found.cards.items() for undo, _ in cards] == [(4, UNDO)]
    elsewhere = session_of(LOST, UNDO, turn(4, "c", cell_id="other", origin=UNDO.to))
    assert until_answer(TALK, elsewhere, LOST.key, "other").cards == {}
