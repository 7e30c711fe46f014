"""The store: private, shared by processes, whole after a kill, bounded, and one sentence when it cannot be used."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from kin_nb.core.file_history import BlobStore, FileHistory, StoreError, workspace_store
from kin_nb.core.paths import kin_home
from kin_nb.core.records import sha256
from tests.unit.file_history.tree import run, tree

SCAN = """
import sys
from pathlib import Path
from kin_nb.core.file_history import FileHistory, workspace_store
root = Path(sys.argv[1])
print("begin", flush=True)
while True:
    history = FileHistory(root, workspace_store(root))
    before = history.before_anything()
    for path in root.iterdir():
        path.write_bytes(path.read_bytes() + path.name.encode() * 100)
    history.changes(before)
    history.close()
"""
PUT = """
import sys
from pathlib import Path
from kin_nb.core.file_history import BlobStore
store = BlobStore(Path(sys.argv[1]))
for number in range(150):
    store.put(b"%d " % number * 100)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "w.sqlite"


@pytest.fixture
def store(path: Path):
    store = BlobStore(path)
    yield store
    store.close()


def start(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE)


def use(path: Path, data: bytes, days_ago: int) -> str:
    """A content that was last used so long ago."""
    store = BlobStore(path)
    sha = store.put(data)
    with store.database.writing() as connection:
        connection.execute("UPDATE blobs SET used = ? WHERE sha = ?", (int(time.time() - days_ago * 86_400), sha))
    store.close()
    return sha


def test_a_content_is_found_by_its_hash_and_nothing_is_made_before_the_first(store, path):
    assert (store.get("0" * 64), store.has("0" * 64), path.parent.exists()) == (None, False, False)
    sha = store.put(b"\0data")
    assert (sha, store.put(b"\0data")) == (sha256(b"\0data"), sha)
    assert (store.get(sha), store.has(sha), store.put(b"")) == (b"\0data", True, sha256(b""))
    assert store.get(sha256(b"")) == b""


def test_only_the_owner_can_read_it(root):
    history = FileHistory(root, workspace_store(root))
    (root / "a").write_text("x")
    history.before_anything()
    folder = kin_home() / "checkpoints"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert folder.joinpath(f"{sha256(os.fsencode(root))}.sqlite").is_file()
    history.close()


def test_a_damaged_content_is_none(store):
    sha = store.put(b"whole")
    with store.database.writing() as connection:
        connection.execute("UPDATE blobs SET data = ?", (b"whol",))
    assert store.get(sha) is None


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
def test_after_a_kill_every_content_that_is_there_is_whole_and_what_was_seen_is_right(root, seed):
    for number in range(40):
        (root / f"{number}.txt").write_text(f"{number}\n" * 1000)
    with start(SCAN, root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begin\n"
        threading.Event().wait(random.Random(seed).uniform(0.005, 0.3))  # the moment of the kill, not a rendezvous
        os.kill(process.pid, signal.SIGKILL)
    store = workspace_store(root)
    with store.database.reading() as connection:
        rows = connection.execute("SELECT sha FROM blobs").fetchall() if connection else []
        remembered = connection.execute("SELECT sha FROM files").fetchall() if connection else []
    assert all(store.get(sha) is not None for (sha,) in rows)
    assert set(remembered) <= set(rows)
    history = FileHistory(root, store)
    first = tree(root)
    files, uncovered = run(history, root, "for f in *; do echo x >> $f; done")
    assert (len(files), uncovered) == (40, "")
    assert (history.undo(files).kept, tree(root)) == ((), first)
    history.close()


def test_several_processes_put_at_once_and_lose_nothing(path, store):
    processes = [start(PUT, path) for _ in range(2)]
    assert [(process.communicate()[0], process.returncode) for process in processes] == [(b"", 0)] * 2
    assert all(store.has(sha256(b"%d " % number * 100)) for number in range(150))


def test_any_thread_may_use_it(store):
    results: list[str] = []
    threads = [threading.Thread(target=lambda n=n: results.append(store.put(b"%d" % n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(sha256(b"%d" % n) for n in range(8))


def test_a_full_disk_is_one_sentence_and_what_is_kept_stays(store, path):
    sha = store.put(b"before")
    with store.database.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    with pytest.raises(StoreError, match=r"/checkpoints cannot be used \(database or disk is full\)$"):
        store.put(b"x" * 100_000)
    assert store.get(sha) == b"before"


def test_what_is_no_database_is_one_sentence(path, store):
    path.parent.mkdir()
    path.write_bytes(b"something else\n" * 100)
    for method in (store.put, store.get):
        with pytest.raises(StoreError, match="file is not a database"):
            method(b"x" if method == store.put else "0" * 64)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_one_sentence(path, store):
    path.parent.mkdir(mode=0o500)
    with pytest.raises(StoreError, match="permission denied"):
        store.put(b"x")


def test_the_oldest_go_first_until_the_rest_fits(path):
    old, middle, new = (use(path, name * 100, days) for name, days in ((b"a", 3), (b"b", 2), (b"c", 1)))
    store = BlobStore(path)
    store.prune(max_bytes=200, max_age_days=30)
    assert [store.has(sha) for sha in (old, middle, new)] == [False, True, True]
    store.prune(max_bytes=0, max_age_days=30)
    assert [store.has(sha) for sha in (old, middle, new)] == [False, False, False]
    store.close()


def test_what_the_workspace_holds_and_what_it_just_held_outlive_older_contents(root, monkeypatch):
    monkeypatch.setattr("kin_nb.core.file_history.scan._TICK", 0)
    (root / "a").write_text("a" * 100)
    (root / "b").write_text("b" * 100)
    history = FileHistory(root, workspace_store(root))
    history.before_anything()
    other = workspace_store(root)
    garbage = other.put(b"g" * 100)
    with other.database.writing() as connection:
        connection.execute("UPDATE blobs SET used = 1000 + (sha = ?)", (garbage,))
    files, _ = run(history, root, "printf %0100d 0 > a")
    other.prune(max_bytes=300, max_age_days=30)
    assert not other.has(garbage)
    assert (history.undo(files).kept, (root / "a").read_text()) == ((), "a" * 100)
    other.prune(max_bytes=0, max_age_days=30)
    files, _ = run(history, root, "rm b")
    assert (history.undo(files).kept, (root / "b").read_text()) == ((), "b" * 100), "b was read again"
    other.close()
    history.close()


def test_age_counts_only_while_no_other_session_has_the_store_open(path):
    sha = use(path, b"old", 40)
    other = BlobStore(path)
    assert other.has(sha)
    store = BlobStore(path)
    store.put(b"new")
    assert store.has(sha), "the other session may need it"
    other.close()
    store.prune(max_bytes=10_000, max_age_days=30)
    assert not store.has(sha)
    store.close()


def test_stores_of_workspaces_that_no_one_uses_are_removed(path):
    unused, opened = path.with_name("unused.sqlite"), path.with_name("opened.sqlite")
    use(unused, b"x", 50)
    holder = BlobStore(opened)
    holder.put(b"y")
    for lock in (unused.with_suffix(".lock"), opened.with_suffix(".lock")):
        os.utime(lock, (1, 1))
    store = BlobStore(path)
    store.put(b"z")
    assert sorted(file.name for file in path.parent.glob("*.sqlite")) == ["opened.sqlite", "w.sqlite"]
    store.close()
    holder.close()


def test_the_file_shrinks_when_contents_go(path, store):
    for number in range(40):
        store.put(random.Random(number).randbytes(100_000))
    store.prune(max_bytes=100_000, max_age_days=30)
    store.close()
    assert path.stat().st_size < 1_000_000


def test_a_store_of_before_learns_what_other_sessions_wrote(root):
    (root / "a").write_text("0\n")
    first = FileHistory(root, workspace_store(root), session="one")
    first.before_anything()
    first.close()
    with closing(sqlite3.connect(workspace_store(root).database.path)) as connection:
        connection.execute("DROP TABLE written")
        connection.commit()
    one, two = (FileHistory(root, workspace_store(root), session=name) for name in ("one", "two"))
    begun, named = one.before_anything(), two.before_writes([root / "a"])
    (root / "a").write_text("1\n")
    assert [change.path for change in two.changes(named)[0]] == ["a"]
    assert one.changes(begun) == ((), "not covered: a was written by another session meanwhile")
    one.close()
    two.close()
