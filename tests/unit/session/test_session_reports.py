"""Sessions in words, for a terminal."""

from __future__ import annotations

import pytest

from kin_nb.core.documents.report import session_report, sessions_report
from kin_nb.core.records import RecordedCompaction
from kin_nb.core.session.store import SessionStore
from tests.unit.session.conftest import STEP, call, write_clear, write_compaction, write_turns
from tests.unit.session.test_store import set_times


@pytest.fixture
def store(root, monkeypatch) -> SessionStore:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield SessionStore(root)
    monkeypatch.undo()
    time.tzset()


def test_a_table_with_aligned_columns(store, write_session):
    set_times(write_session("aaaa-1111-2222", "Fix the build"), 1_706_261_400_000)
    big = STEP.model_copy(update={"prompt_tokens": 12_335})
    set_times(write_session("bbbb-1111-2222", "Hello", "again", steps=(big,)), 1_706_347_800_000)
    assert sessions_report(store.list()).splitlines() == [
        "id        last activity     turns  tokens (in+out)  model  first prompt",
        "bbbb-111  2024-01-27 09:30      2           24,690  m      Hello",
        "aaaa-111  2024-01-26 09:30      1              110  m      Fix the build",
    ]


def test_what_is_not_known_is_a_question_mark(store, write_session):
    write_session("aaaa-1", "x")
    unknown = store.list()[0].model_copy(update={"turns": None, "tokens": None})
    assert sessions_report([unknown]).splitlines()[1].split()[3:5] == ["?", "?"]


def test_no_sessions_are_reported_in_words(store):
    assert sessions_report(store.list()) == "No sessions yet."


def test_a_session_turn_by_turn(store, write_session, tmp_path):
    calls = (
        call(id="c1", status="ok"),
        call(id="c2", status="ok"),
        call(id="c3", name="edit_file", status="refused"),
        call(id="c4", status="error"),
    )
    step = STEP.model_copy(update={"calls": calls})
    log = write_session("aaaa-1", "\nFix the build\nof everything", steps=(step, STEP), git_branch="main")
    compaction = RecordedCompaction(summary="s", prompt_tokens=7, completion_tokens=3)
    _, log = store.resume("aaaa-1")
    compacted = write_compaction(log, 1, compaction, cost="0.000300")
    write_turns(log, "Once more", first=2, parent=compacted, ends=False)
    write_clear(log, 2)
    log.close()
    set_times(log, 1_706_261_400_000)
    assert session_report(store.find("aaaa-1")).splitlines() == [
        "Session aaaa-1",
        f"in {tmp_path} on main",
        "2024-01-26 09:30 to 2024-01-26 09:30",
        "2 turns · 340 tokens · $0.0004",
        "",
        "1. Fix the build",
        "   bash x2, edit_file (refused), bash (error)",
        "   done · 2 model requests · 220 tokens · $0.0001 · 1.5 s",
        "",
        "The conversation was compacted. 10 tokens · $0.0003",
        "",
        "2. Once more",
        "   interrupted: the session ended here · 1 model request · 110 tokens",
        "",
        "A new conversation.",
    ]


def test_nothing_that_a_terminal_obeys_comes_out(store, write_session):
    step = STEP.model_copy(update={"calls": (call(name="\x1b[2Jbash", status="ok"),)})
    write_session("aaaa-1", "\x1b]0;title\x07 x", steps=(step,), workdir="/w\x1b[2J", git_branch="\x1b[2J")
    text = session_report(store.find("aaaa-1")) + sessions_report(store.list())
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
