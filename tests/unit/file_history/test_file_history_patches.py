"""Undo on another machine, or after contents were given up: the records' patches are applied backwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kin_nb.core.file_history import FileHistory, workspace_store
from kin_nb.core.file_history.file_changes import Content, backwards, file_change, patched
from kin_nb.core.records import FileChange, sha256
from tests.unit.file_history.tree import run, tree

NOT_KEPT = "its content is not kept any more"
LINES = "".join(f"line {n}\n" for n in range(40))


@pytest.fixture
def elsewhere(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileHistory]:
    """The history of another person, who has the workspace and no contents of it."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "another-home"))
    history = FileHistory(root, workspace_store(root))
    yield history
    history.close()


def changed(path: str, old: bytes, new: bytes, **fields: str) -> FileChange:
    sides = (Content("100644", sha256(content), content) for content in (old, new))
    return file_change(path, *sides).model_copy(update=fields)


def test_all_that_patches_hold_comes_back_and_can_be_restored_again(root, history, elsewhere):
    for name, text in {"edited.py": LINES, "twice": "a\nb\n", "gone": "no newline", "run.sh": "#!/bin/sh\n"}.items():
        (root / name).write_text(text)
    first = tree(root)
    one, _ = run(history, root, "sed -i '3d;30s/line/LINE/' edited.py; echo c >> twice; rm gone; echo x > new")
    two, _ = run(history, root, "sed -i 1d twice; chmod +x run.sh; echo exit >> run.sh")
    last = tree(root)
    restored = elsewhere.undo((*one, *two))
    assert restored.kept == ()
    assert tree(root) == first
    assert elsewhere.undo(restored.files).kept == ()
    assert tree(root) == last


def test_a_file_that_is_not_as_the_record_left_it_stays(root, history, elsewhere):
    (root / "a").write_text("before\n")
    files, _ = run(history, root, "echo after > a")
    (root / "a").write_text("mine\n")
    assert elsewhere.undo(files).kept == (("a", "you changed it since"),)
    assert (root / "a").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("change", "now"),
    [
        pytest.param(changed("a", b"\0old", b"\0new"), b"\0new", id="binary"),
        pytest.param(
            changed("a", b"old\n", b"new\n", before="0" * 64), b"new\n", id="another hash than what comes out"
        ),
        pytest.param(changed("a", b"x\n" * 200_000, b"y\n"), b"y\n", id="too large for a patch"),
        pytest.param(changed("a", b"old\n", b"new\n", patch="no patch"), b"new\n", id="no patch"),
        pytest.param(changed("a", b"old\n", b"new\n", patch="a\nb\n@@ -9 +\n+\ud83d\n"), b"new\n", id="hostile"),
        pytest.param(changed("a", b"old", b"new", before_mode="120000"), b"new", id="a link, which may lead anywhere"),
        pytest.param(changed(".bashrc", b"old\n", b"new\n"), b"new\n", id="what runs later, on a record's word alone"),
        pytest.param(changed("sub/.git/config", b"old\n", b"new\n"), b"new\n", id="git's own"),
    ],
)
def test_what_no_patch_gives_to_the_byte_stays_and_is_listed(root, elsewhere, change, now):
    (root / change.path).parent.mkdir(parents=True, exist_ok=True)
    (root / change.path).write_bytes(now)
    restored = elsewhere.undo([change])
    assert restored.files == ()
    assert [path for path, _ in restored.kept] == [change.path]
    assert ".git" in change.path or restored.kept[0][1] == NOT_KEPT
    assert (root / change.path).read_bytes() == now


def test_a_content_between_two_changes_may_be_the_one_that_is_kept(root, history, elsewhere):
    (root / "a").write_text(LINES)
    one, _ = run(history, root, "sed -i 20d a")
    between = (root / "a").read_bytes()
    two, _ = run(history, root, r"printf '\0binary' > a")
    assert elsewhere.undo((*one, *two)).kept == (("a", NOT_KEPT),)
    store = workspace_store(root)
    store.put(between)
    store.close()
    assert elsewhere.undo((*one, *two)).kept == ()
    assert (root / "a").read_text() == LINES


def test_a_patch_goes_both_ways(subtests):
    for old in ["", "a", "a\n", "a\nb\nc", LINES, LINES + "end", "-- x\n++ y\n@@ z\n", "\f\u2028\r\n"]:
        for new in ["", "b", "a\nc\n", LINES.replace("line 20", "changed"), "++ y\n\\ z\n"]:
            with subtests.test(old=old, new=new):
                patch = changed("a", old.encode(), new.encode()).patch
                assert patched(old, patch) == new
                assert patched(new, backwards(patch)) == old


def test_a_patch_whose_hunks_go_back_and_forth_makes_no_more_than_it_and_the_text_hold():
    patch = "--- a\n+++ b\n" + "@@ -39,1 +1,1 @@\n@@ -1,1 +1,1 @@\n" * 1000
    assert len(patched(LINES, patch)) <= len(LINES)
