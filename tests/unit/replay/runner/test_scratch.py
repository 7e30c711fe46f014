"""Playback in a scratch copy: real files in a folder, changed as the record says and no otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.file_history.file_changes import Content, file_change
from kin_nb.core.records import FileChange, RecordedCall, RecordedStep, TurnRecord, UndoRecord, sha256
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.playback.locate import FoundRecording
from kin_nb.replay.recording import WorkspaceMeta
from kin_nb.replay.runner.run_environment import ScratchCopy
from tests.unit.replay.sessions import recording, turn

MODE = "100644"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy"


@pytest.fixture
def scratch(folder, tmp_path):
    made = ScratchCopy(folder, tmp_path / "contents.sqlite")
    yield made
    made.close()


def change(path: str, before: bytes | None, after: bytes | None, mode: str = MODE) -> FileChange:
    def side(data: bytes | None) -> Content:
        return Content("" if data is None else mode, None if data is None else sha256(data), data)

    return file_change(path, side(before), side(after))


def changing(*changes: FileChange, number: int = 1) -> TurnRecord:
    """A turn with a call for each change."""
    calls = tuple(
        RecordedCall(id=f"c{n}", name="bash", arguments="{}", files=(each,)) for n, each in enumerate(changes)
    )
    return turn(number, "go", steps=(RecordedStep(calls=calls),))


def said(outputs) -> list[str]:
    return [line for output in outputs for line in output.metadata["kin"]["missing"]]


def test_the_files_are_as_each_turn_left_them_and_an_undo_takes_them_back(folder, scratch):
    (folder / "old.txt").write_bytes(b"1\n")
    (folder / "gone.txt").write_bytes(b"bye\n")
    first = [
        change("sub/new.py", None, b"x = 1"),
        change("old.txt", b"1\n", b"1\n2\n"),
        change("gone.txt", b"bye\n", None),
    ]
    assert scratch.play(changing(*first)) == []
    assert (folder / "sub/new.py").read_bytes() == b"x = 1"
    assert (folder / "old.txt").read_bytes() == b"1\n2\n"
    assert not (folder / "gone.txt").exists()
    second = [change("old.txt", b"1\n2\n", b"3\n"), change("old.txt", b"3\n", b"4\n")]
    assert scratch.play(changing(*second, number=2)) == []
    assert (folder / "old.txt").read_bytes() == b"4\n"
    back = [change("old.txt", b"4\n", b"1\n2\n")]
    undo = UndoRecord(turn_ids=("2" * 16,), turns=(2,), files=tuple(back))
    assert scratch.play(undo) == []
    assert (folder / "old.txt").read_bytes() == b"1\n2\n"


def test_a_turn_that_is_played_again_changes_nothing_more(folder, scratch):
    made = changing(change("a.txt", None, b"a\n"))
    assert (scratch.play(made), scratch.play(made)) == ([], [])
    assert (folder / "a.txt").read_bytes() == b"a\n"


def test_a_file_that_is_not_what_it_was_stays_and_is_named(folder, scratch):
    (folder / "a.txt").write_bytes(b"mine\n")
    outputs = scratch.play(changing(change("a.txt", b"theirs\n", b"new\n"), change("b.txt", None, b"b\n")))
    assert said(outputs) == ["a.txt: it was different when this was recorded"]
    assert outputs[0].metadata["kin"]["place"] == "turn 1"
    assert "a.txt" in outputs[0].data["text/plain"]
    assert (folder / "a.txt").read_bytes() == b"mine\n"
    assert (folder / "b.txt").read_bytes() == b"b\n", "the rest is done all the same"


def test_a_patch_that_does_not_give_the_recorded_content_is_not_taken(folder, scratch):
    tampered = change("a.txt", None, b"good\n")
    patch = tampered.patch.replace("good", "evil")
    assert said(scratch.play(changing(tampered.model_copy(update={"patch": patch})))) == [
        "a.txt: the recording does not contain its text"
    ]
    assert not (folder / "a.txt").exists()


@pytest.mark.parametrize(
    "path", ["../out.txt", "/tmp/kin-out.txt", "~/out.txt", ".git/hooks/post-checkout", "a/../../out.txt"]
)
def test_a_path_that_leads_elsewhere_is_never_written(folder, scratch, path, tmp_path):
    before = sorted(tmp_path.rglob("*.txt"))
    (line,) = said(scratch.play(changing(change(path, None, b"owned\n"))))
    assert line.startswith(path)
    assert sorted(tmp_path.rglob("*.txt")) == before
    assert not (folder / ".git").exists()
    assert not Path("/tmp/kin-out.txt").exists()


def test_nothing_is_written_through_a_link(folder, scratch, tmp_path):
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    assert said(scratch.play(changing(change("link/a.txt", None, b"owned\n")))) != []
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_binary_file_is_named_as_what_no_recording_holds(scratch):
    assert said(scratch.play(changing(FileChange(path="a.png", after="1" * 64, after_mode=MODE)))) == [
        "a.png: the recording does not contain its text"
    ]


def test_a_mode_is_part_of_a_change(folder, scratch):
    assert scratch.play(changing(change("run.sh", None, b"echo\n", mode="100755"))) == []
    assert os.access(folder / "run.sh", os.X_OK)


def test_only_a_runner_that_asked_for_it_gives_one(folder):
    assert ScratchCopy.from_environment(None) is None
    assert ScratchCopy.from_environment(ReplayEnvironment("tools", folder / "a.ipynb", folder, folder)) is None
    given = ScratchCopy.from_environment(ReplayEnvironment("scratch", folder / "a.ipynb", folder, folder))
    assert given is not None
    given.close()
    assert folder.is_dir(), "who made it removes it"


def test_the_kernel_is_in_the_copy_until_it_is_closed_but_for_what_begins_outside(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path / "work")
    recorded = recording(turn(1, "go"), workspace=WorkspaceMeta(path="."))
    scratch = ScratchCopy.create(FoundRecording(tmp_path / "work" / "talk.ipynb", {}, recorded))
    copy = Path.cwd()
    with scratch.outside():
        assert Path.cwd() == (tmp_path / "work").resolve()
    assert Path.cwd() == copy != tmp_path / "work"
    assert (copy / "a.py").read_text() == "x = 1\n"
    scratch.close()
    assert Path.cwd() == (tmp_path / "work").resolve()
    assert not copy.exists()
