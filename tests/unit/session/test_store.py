"""Sessions listed and found: newest first, by prefix, whatever lies in the folder, without reading long logs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kin_nb.core.records import RecordedCompaction, RecordedImage, RecordedStep
from kin_nb.core.session.errors import AmbiguousSessionError, SessionNotFoundError, UnreadableSessionError
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.store import SessionStore, StoredSession
from tests.unit.session.conftest import STEP, write_compaction, write_turns


@pytest.fixture
def store(root) -> SessionStore:
    return SessionStore(root)


def set_times(log: SessionLog, milliseconds: int) -> None:
    lines = [json.loads(line) | {"time": milliseconds} for line in log.path.read_bytes().splitlines()]
    log.path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))


def test_a_summary_says_what_a_person_looks_for(store, write_session, tmp_path):
    log = write_session("aaaa-1", "Fix the\n  build of the second of the two packages, please, and soon", "More.")
    set_times(log, 1_706_261_400_000)
    (summary,) = store.list()
    assert summary.id == "aaaa-1"
    assert summary.folder == log.folder
    assert summary.title == "Fix the build of the second of the two packages, p…"
    assert (summary.turns, summary.tokens, summary.model, summary.workdir) == (2, 220, "m", str(tmp_path))
    assert summary.started.timestamp() == summary.last_activity.timestamp() == 1_706_261_400
    assert summary.started.utcoffset() is not None


def test_the_newest_activity_comes_first_and_a_workspace_has_its_own(store, write_session, tmp_path):
    for number, (name, folder) in enumerate([("a", "here"), ("b", "there"), ("c", "here")]):
        set_times(write_session(f"{name * 4}-1", "x", workdir=tmp_path / folder), 1_706_261_400_000 + number)
    assert [s.id for s in store.list()] == ["cccc-1", "bbbb-1", "aaaa-1"]
    assert [s.id for s in store.list(tmp_path / "here")] == ["cccc-1", "aaaa-1"]
    assert store.list(tmp_path / "nowhere") == []


def test_there_may_be_no_sessions_at_all(store):
    assert store.list() == []


HEADER = b'{"type": "session", "session": "s", "workspace": "/w", "model": "m", "time": 1}\n'
TURN = b'{"type": "turn", "record": {"turn": 1, "prompt": "x"}}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff" * 100,
        b"[" * 100_000,
        b'{"type": "session"}\n' + TURN,
        HEADER.replace(b'"/w"', b"3") + TURN,
        HEADER.replace(b'"time": 1', b'"time": 1e400') + TURN,
        HEADER,
        HEADER + TURN + b'{"type": "reply", "step": 7, "time": 2}\n',
    ],
    ids=["empty", "binary", "nested", "no fields", "wrong type", "no such time", "no turn", "bad step"],
)
def test_what_cannot_be_read_is_passed_over(store, write_session, root, data):
    write_session("aaaa-1", "x")
    (root / "bbbb-1").mkdir()
    (root / "bbbb-1" / "log.jsonl").write_bytes(data)
    (root / "notes.txt").write_text("mine")
    (root / "empty").mkdir()
    (root / "cccc-1").mkdir()
    os.mkfifo(root / "cccc-1" / "log.jsonl")  # opening it would wait for a writer
    assert [s.id for s in store.list()] == ["aaaa-1"]
    assert store.find("latest").id == "aaaa-1"


def test_a_long_log_is_known_by_its_ends(store, root, monkeypatch):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    log.append("session", session="aaaa-1", workspace="/w", model="first", system_prompt_text="long " * 20_000)
    write_turns(log, *["x"] * 20, steps=(RecordedStep(content="y" * 200_000, prompt_tokens=1_000),))
    log.close()
    read = counting_reads(monkeypatch)
    (summary,) = store.list()
    assert (summary.turns, summary.tokens, summary.model) == (20, 20_000, "m")
    assert sum(read) < 300_000 < log.path.stat().st_size


def test_a_long_turn_that_was_cut_off_counts_with_those_before_it(store, root):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    log.append("session", session="aaaa-1", workspace="/w", model="m")
    big = RecordedStep(content="y" * 100_000, prompt_tokens=1_000)
    write_turns(log, *["x"] * 12, steps=(big,))
    write_turns(log, "last", first=13, steps=(big, big), ends=False)
    log.close()
    (summary,) = store.list()
    assert (summary.turns, summary.tokens) == (13, 14_000)


def test_what_only_the_whole_of_a_long_log_could_tell_is_none(store, root):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    log.append("session", session="aaaa-1", workspace="/w", model="m")
    write_turns(log, "x", steps=(RecordedStep(content="y" * 1_100_000),), ends=False)
    log.close()
    (summary,) = store.list()
    assert (summary.title, summary.turns, summary.tokens, summary.model) == ("x", None, None, "m")


def test_totals_hold_compactions_and_continue_after_a_resume(store, write_session):
    compaction = RecordedCompaction(summary="s", prompt_tokens=7, completion_tokens=3)
    write_session("aaaa-1", "x", steps=(STEP, STEP.model_copy(update={"compaction": compaction})))
    _, log = store.resume("aaaa")
    write_turns(log, "y", first=2, compacted=compaction)
    log.append("note", text="z" * 20_000)  # so that the beginning is out of sight
    write_compaction(log, 2, compaction)
    write_turns(log, "z", first=3)
    log.close()
    (summary,) = store.list()
    stored = store.find("aaaa")
    assert (summary.turns, summary.tokens) == (3, 470)
    assert summary.tokens == sum(record.prompt_tokens + record.completion_tokens for record in stored.records)


def test_a_copy_has_the_title_and_totals_of_what_it_continues(store, write_session, root):
    write_session("aaaa-1", "first", "second")
    turns = [turn.model_dump(mode="json") for turn in store.find("aaaa-1").turns]
    log = SessionLog("bbbb-1", folder=root / "bbbb-1")
    log.append("session", session="bbbb-1", workspace="/w", model="m")
    log.append("continued", records=turns)
    write_turns(log, "third", first=3)
    log.close()
    copy = next(summary for summary in store.list() if summary.id == "bbbb-1")
    assert (copy.title, copy.turns, copy.tokens) == ("first", 3, 330)


def test_a_title_holds_nothing_that_a_terminal_obeys(store, write_session):
    write_session("aaaa-1", "\x1b[31mred\x1b[0m \u202eleft\x07 \ud800")
    assert store.list()[0].title == "[31mred[0m left "


def test_a_prompt_with_a_picture_that_is_too_long_to_read_here_has_no_title(store, root):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    log.append("session", session="aaaa-1", workspace="/w", model="m")
    write_turns(log, "look", images=(RecordedImage(media_type="image/png", data="A" * 1_500_000),))
    log.close()
    assert (store.list()[0].title, store.list()[0].turns) == ("", 1)


def test_a_thousand_sessions_are_listed(store, write_session, root):
    log = write_session("seed-1", *["prompt"] * 5, system_prompt_text="s" * 10_000)
    data = log.path.read_bytes()
    for number in range(999):
        (root / f"{number:08d}").mkdir()
        (root / f"{number:08d}" / "log.jsonl").write_bytes(data)
    assert len(store.list()) == 1000


# find


def test_latest_and_nothing_mean_the_newest_of_this_workspace(store, write_session, tmp_path):
    set_times(write_session("aaaa-1", "x", workdir=tmp_path / "here"), 1_706_261_400_000)
    set_times(write_session("bbbb-1", "y", workdir=tmp_path / "there"), 1_706_261_500_000)
    assert store.find("latest", tmp_path / "here").id == "aaaa-1"
    assert store.find("", tmp_path / "here").id == "aaaa-1"
    assert store.find().id == "bbbb-1"
    with pytest.raises(SessionNotFoundError, match=r"No sessions of .*nowhere"):
        store.find("latest", tmp_path / "nowhere")


def test_an_id_or_the_beginning_of_one_names_a_session(store, write_session):
    write_session("abcd-1", "x")
    write_session("abcd-12", "y")
    write_session("ef", "z")
    assert store.find("abcd-12").turns[0].prompt == "y"
    assert store.find("abcd-1").turns[0].prompt == "x", "the whole id is never ambiguous"
    assert store.find("ef").turns[0].prompt == "z", "nor too short"
    with pytest.raises(AmbiguousSessionError, match=r"2 session ids start with abcd: abcd-1, abcd-12\. Give more"):
        store.find("abcd")


def test_a_name_of_none_says_which_there_are(subtests, store, write_session, root):
    write_session("abcd-1", "Fix the build")
    for name in ["xyzxyz", "abc", "../abcd-1", "abcd-1/", "\ud800abc"]:
        with subtests.test(name=name):
            with pytest.raises(SessionNotFoundError) as error:
                store.find(name)
            assert str(error.value) == f"No session {name} in {root}. The newest: abcd-1 (Fix the build)."


def test_a_session_is_found_by_the_id_that_clear_or_compact_gave_it(store, write_session):
    log = write_session("aaaa-1", 'say "session_id":"ffff-1"')
    log.append("renamed", session_id="cccc-1", why="compact")
    log.append("renamed", session_id="dddd-1", why="clear")
    log.close()
    stored = store.find("dddd")
    assert (stored.id, stored.session_id, stored.folder.name) == ("aaaa-1", "dddd-1", "aaaa-1")
    assert store.find("cccc").id == "aaaa-1"
    with pytest.raises(SessionNotFoundError):
        store.find("ffff")


def test_a_damaged_session_is_an_error_that_names_the_log_and_the_record(store, write_session):
    log = write_session("aaaa-1", "x")
    log.path.write_bytes(log.path.read_bytes().replace(b'"outcome":"done"', b'"outcome":"odd"'))
    with pytest.raises(UnreadableSessionError, match="record 4, of type end") as error:
        store.find("aaaa-1")
    assert str(log.path) in str(error.value)


@pytest.mark.parametrize("data", [b"", b"nothing of ours\n"])
def test_a_log_without_a_header_is_no_session(store, root, data):
    folder = root / "aaaa-1"
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_bytes(data)
    with pytest.raises(UnreadableSessionError, match="header"):
        StoredSession.read(folder)


def test_a_folder_without_a_log_is_no_session(root):
    with pytest.raises(UnreadableSessionError, match="No such file"):
        StoredSession.read(root / "gone")


def counting_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of whatever is read through Path.open."""
    read: list[int] = []
    original = Path.open

    def opened(path, *args, **kwargs):
        file = original(path, *args, **kwargs)

        class Counting:
            def __getattr__(self, name):
                return getattr(file, name)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            def read(self, size=-1):
                data = file.read(size)
                read.append(len(data))
                return data

            def readline(self, size=-1):
                data = file.readline(size)
                read.append(len(data))
                return data

        return Counting()

    monkeypatch.setattr(Path, "open", opened)
    return read
