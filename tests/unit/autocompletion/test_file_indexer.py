"""The index of the workspace's files follows the disk, whatever happens there."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from kin_nb.core.autocompletion import file_indexer as module
from kin_nb.core.autocompletion.file_indexer import FileIndexer, TreeWatcher


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def settle(root: Path) -> None:
    """As if nothing had changed for an hour."""
    an_hour_ago = time.time() - 3600
    for path in [root, *root.rglob("*")]:
        os.utime(path, (an_hour_ago, an_hour_ago), follow_symlinks=False)


def paths(indexer: FileIndexer) -> list[str]:
    return sorted(entry.path for entry in indexer.entries())


@pytest.fixture(params=["fresh", "settled"])
def tree(request, tmp_path):
    """A tree and its index. A change must be seen in a fresh tree too, where times may not move between two changes."""
    make(tmp_path, "a.py", "src/b.py", "src/deep/c.py", "docs/d.md")
    if request.param == "settled":
        settle(tmp_path)
    indexer = FileIndexer(tmp_path)
    assert paths(indexer) == ["a.py", "docs", "docs/d.md", "src", "src/b.py", "src/deep", "src/deep/c.py"]
    return tmp_path, indexer


def test_new_files_and_folders_are_found(tree):
    root, indexer = tree
    make(root, "new.py", "src/deep/er/new.py")
    assert {"new.py", "src/deep/er", "src/deep/er/new.py"} < set(paths(indexer))
    make(root, "src/deep/er/later.py")
    assert "src/deep/er/later.py" in paths(indexer)


def test_what_went_is_forgotten_with_all_that_was_in_it(tree):
    root, indexer = tree
    shutil.rmtree(root / "src")
    (root / "a.py").unlink()
    assert paths(indexer) == ["docs", "docs/d.md"]
    make(root, "src/z.py")
    assert paths(indexer) == ["docs", "docs/d.md", "src", "src/z.py"]


def test_a_renamed_folder_is_followed(tree):
    root, indexer = tree
    (root / "src").rename(root / "lib")
    assert paths(indexer) == ["a.py", "docs", "docs/d.md", "lib", "lib/b.py", "lib/deep", "lib/deep/c.py"]


def test_another_folder_in_its_place_is_noticed(tree):
    root, indexer = tree
    (root / "docs").rename(root / "old")
    (root / "src" / "deep").rename(root / "docs")
    assert paths(indexer) == ["a.py", "docs", "docs/c.py", "old", "old/d.md", "src", "src/b.py"]


def test_a_file_that_becomes_a_folder_and_back(tree):
    root, indexer = tree
    (root / "a.py").unlink()
    make(root, "a.py/inside")
    assert "a.py/inside" in paths(indexer)
    shutil.rmtree(root / "a.py")
    make(root, "a.py")
    assert [entry for entry in indexer.children("") if entry.path == "a.py"] == [("a.py", False)]
    assert "a.py/inside" not in paths(indexer)


@pytest.mark.parametrize("rules", [".gitignore", ".git/info/exclude"])
def test_changed_ignore_rules_hold_at_once(tree, rules):
    root, indexer = tree
    make(root, rules)
    (root / rules).write_text("deep/\n")
    settle(root)
    assert "src/deep/c.py" not in paths(indexer)
    (root / rules).write_text("*.md\n")
    assert "src/deep/c.py" in paths(indexer)
    assert "docs/d.md" not in paths(indexer)
    (root / rules).unlink()
    assert {"src/deep/c.py", "docs/d.md"} < set(paths(indexer))


def test_a_new_ignore_file_deep_in_the_tree_holds_at_once(tree):
    root, indexer = tree
    (root / "src" / "deep" / ".gitignore").write_text("c.py\n")
    assert "src/deep/c.py" not in paths(indexer)


def test_the_root_may_come_later(tmp_path):
    indexer = FileIndexer(tmp_path / "later")
    assert paths(indexer) == []
    make(tmp_path, "later/a.py")
    assert paths(indexer) == ["a.py"]


def test_nothing_is_listed_again_when_nothing_changed(tree, monkeypatch):
    root, indexer = tree
    settle(root)
    before = indexer.entries()
    monkeypatch.setattr(module, "list_folder", lambda *args: pytest.fail(f"listed {args[1]!r} again"))
    assert indexer.entries() is before
    assert [entry.path for entry in indexer.children("src")] == ["src/b.py", "src/deep"]


def test_only_the_changed_folder_is_listed_again(tmp_path, monkeypatch):
    make(tmp_path, "a/x", "b/x", "b/c/x")
    settle(tmp_path)
    indexer = FileIndexer(tmp_path)
    indexer.entries()
    listed = []
    really = module.list_folder
    monkeypatch.setattr(
        module, "list_folder", lambda root, folder, rules: listed.append(folder) or really(root, folder, rules)
    )
    make(tmp_path, "b/c/y")
    assert "b/c/y" in paths(indexer)
    assert listed == ["b/c"]


def test_nothing_is_read_and_no_thread_starts_before_the_first_question(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "list_folder", lambda *_: pytest.fail("listed"))
    monkeypatch.setattr(TreeWatcher, "watch", lambda *_: pytest.fail("looked"))
    threads = threading.active_count()
    FileIndexer(tmp_path)
    assert threading.active_count() == threads


def test_too_many_entries_are_cut_and_it_says_so(tmp_path):
    make(tmp_path, *(f"folder{number}/file{number}" for number in range(10)))
    indexer = FileIndexer(tmp_path, most=12)
    found = paths(indexer)
    assert len(found) == 12
    assert {f"folder{number}" for number in range(10)} < set(found)  # what is near the root comes first
    assert indexer.truncated


def test_room_that_files_leave_is_used(tmp_path):
    make(tmp_path, "a/1", "a/2", "b/3", "b/4")
    indexer = FileIndexer(tmp_path, most=4)
    assert paths(indexer) == ["a", "a/1", "a/2", "b"]
    assert indexer.truncated
    shutil.rmtree(tmp_path / "a")
    assert paths(indexer) == ["b", "b/3", "b/4"]
    assert not indexer.truncated


def test_a_folder_with_more_than_there_is_room_for_is_cut(tmp_path):
    make(tmp_path, *(f"{number:02}" for number in range(30)))
    settle(tmp_path)
    indexer = FileIndexer(tmp_path, most=10)
    assert paths(indexer) == [f"{number:02}" for number in range(10)]
    assert indexer.truncated
    for number in range(25):
        (tmp_path / f"{number:02}").unlink()
    assert paths(indexer) == ["25", "26", "27", "28", "29"]
    assert not indexer.truncated


def test_without_time_the_next_question_continues(tmp_path, monkeypatch):
    make(tmp_path, "a/b/c/d")
    monkeypatch.setattr(module, "FIRST_SECONDS", -1.0)
    indexer = FileIndexer(tmp_path)
    assert paths(indexer) == []
    assert indexer.truncated
    assert paths(indexer) == ["a", "a/b", "a/b/c", "a/b/c/d"]
    assert not indexer.truncated


def test_a_watcher_without_time_continues_where_it_stopped(tmp_path):
    make(tmp_path, *"abc")
    settle(tmp_path)
    watcher = TreeWatcher(tmp_path)
    for name in "abc":
        watcher.watch(name)
    assert watcher.changed(time.monotonic() - 1) == []
    for name in "abc":
        (tmp_path / name).unlink()
    assert watcher.changed(time.monotonic() + 60) == ["a", "b", "c"]
    watcher.watch("b")
    watcher.forget(["a"])
    assert watcher.changed(time.monotonic() + 60) == ["c"]


def test_what_is_no_longer_there_is_no_longer_missing(tmp_path):
    make(tmp_path, "a/1", "b/2")
    full = FileIndexer(tmp_path, most=2)
    cut = FileIndexer(tmp_path, most=3)
    assert (paths(full), paths(cut)) == (["a", "b"], ["a", "a/1", "b"])
    make(tmp_path, "a/0", "a/3")
    assert (paths(full), paths(cut)) == (["a", "b"], ["a", "a/0", "b"])
    assert full.truncated
    assert cut.truncated
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "b")
    assert paths(full) == paths(cut) == []
    assert not full.truncated
    assert not cut.truncated


def test_a_second_change_within_the_clocks_step_is_seen(tmp_path):
    make(tmp_path, "a.py")
    now = time.time_ns()
    os.utime(tmp_path, ns=(now, now))
    indexer = FileIndexer(tmp_path)
    assert paths(indexer) == ["a.py"]
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    os.utime(tmp_path, ns=(now, now))
    assert paths(indexer) == ["b.py"]


def test_a_link_in_place_of_a_folder_is_not_entered(tree):
    root, indexer = tree
    shutil.rmtree(root / "src")
    assert paths(indexer) == ["a.py", "docs", "docs/d.md"]
    (root / "src").symlink_to(root / "docs", target_is_directory=True)
    assert paths(indexer) == ["a.py", "docs", "docs/d.md", "src"]


def test_a_folder_that_went_before_there_was_room_for_it_is_not_missing(tmp_path):
    make(tmp_path, "a", "b/1")
    indexer = FileIndexer(tmp_path, most=2)
    assert paths(indexer) == ["a", "b"]
    assert indexer.truncated
    shutil.rmtree(tmp_path / "b")
    make(tmp_path, "c")
    assert paths(indexer) == ["a", "c"]
    assert not indexer.truncated
