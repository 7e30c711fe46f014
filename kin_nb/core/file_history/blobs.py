"""BlobStore: contents by their sha256, in one database for each workspace under `~/.kin-code/checkpoints`."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kin_nb.core.file_history.database import Database, claim_path
from kin_nb.core.paths import kin_home
from kin_nb.core.records import sha256

MAX_BYTES = 512_000_000
"""Of contents kept for one workspace; the oldest go first."""
MAX_AGE_DAYS = 30
_PRUNE_EVERY = 64_000_000
"""Bytes written between two looks at the budget."""
_DAY = 24 * 3600


def workspace_store(root: Path) -> BlobStore:
    """The store for the workspace at `root` (resolved). Nothing is made before something is put."""
    return BlobStore(kin_home() / "checkpoints" / f"{sha256(os.fsencode(root))}.sqlite")


class BlobStore:
    """Every method raises StoreError when the store cannot be used: full or read-only disk, no database, locked.

    Prunes itself: at its first write and now and then after that.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, max_age_days: int = MAX_AGE_DAYS) -> None:
        self.database = Database(path)
        self._max_bytes, self._max_age_days = max_bytes, max_age_days
        self._until_prune = 0

    def put(self, data: bytes) -> str:
        """Its sha256."""
        sha = sha256(data)
        self.put_all([(sha, data)])
        return sha

    def put_all(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """In one transaction. What is there already is young again."""
        self.prune_when_due()
        with self.database.writing() as connection:
            self._until_prune -= insert(connection, contents)

    def get(self, sha: str) -> bytes | None:
        """Never half a content, never a damaged one."""
        with self.database.reading() as connection:
            row = connection and connection.execute("SELECT data FROM blobs WHERE sha = ?", (sha,)).fetchone()
        return row[0] if row and sha256(row[0]) == sha else None

    def has(self, sha: str) -> bool:
        with self.database.reading() as connection:
            return connection is not None and _has(connection, sha)

    def prune_when_due(self) -> None:
        if self._until_prune <= 0:
            self._until_prune = _PRUNE_EVERY
            self.prune(self._max_bytes, self._max_age_days)
            _remove_unused(self.database.path, self._max_age_days)

    def prune(self, max_bytes: int, max_age_days: int) -> None:
        """Give up contents that were not used for so long, then the oldest until the rest fits.

        Age counts only while no other session has the store open: those may need what is old. What the workspace holds
        just now, as far as is known, goes last.
        """
        with self.database.reading() as found:
            if found is None:
                return
            alone = self.database.is_ours_alone()
            old = int(time.time() - max_age_days * _DAY)
            ((total, oldest),) = found.execute(
                "SELECT coalesce(sum(size), 0), coalesce(min(used), 0) FROM blobs"
            ).fetchall()
            if total <= max_bytes and not (alone and oldest < old):
                return
            with self.database.writing() as connection:
                _give_up(connection, max_bytes, old if alone else 0)
            found.executescript("PRAGMA incremental_vacuum")  # execute() would free one page

    def generation(self) -> int:
        """Another number: contents were given up since, and what was known to be here may be gone."""
        with self.database.reading() as connection:
            return connection.execute("PRAGMA user_version").fetchone()[0] if connection else 0

    def close(self) -> None:
        self.database.close()


def insert(connection: sqlite3.Connection, contents: Iterable[tuple[str, bytes]]) -> int:
    """How many bytes there were, old and new."""
    now = int(time.time())
    rows = [(sha, len(data), now, data) for sha, data in contents]
    connection.executemany(
        "INSERT INTO blobs VALUES (?, ?, ?, ?) ON CONFLICT (sha) DO UPDATE SET used = excluded.used", rows
    )
    return sum(size for _, size, _, _ in rows)


def _has(connection: sqlite3.Connection, sha: str) -> bool:
    return connection.execute("SELECT 1 FROM blobs WHERE sha = ?", (sha,)).fetchone() is not None


def _give_up(connection: sqlite3.Connection, max_bytes: int, old: int) -> None:
    gone = connection.execute(
        "DELETE FROM blobs WHERE used < ? AND sha NOT IN (SELECT sha FROM files)", (old,)
    ).rowcount
    total = connection.execute("SELECT coalesce(sum(size), 0) FROM blobs").fetchone()[0]
    rows = connection.execute("SELECT sha, size FROM blobs ORDER BY sha IN (SELECT sha FROM files), used").fetchall()
    for sha, size in rows:
        if total <= max_bytes:
            break
        gone += connection.execute("DELETE FROM blobs WHERE sha = ?", (sha,)).rowcount
        total -= size
    if gone:
        connection.execute("DELETE FROM files WHERE sha NOT IN (SELECT sha FROM blobs)")
        connection.execute("DELETE FROM states WHERE sha != '' AND sha NOT IN (SELECT sha FROM blobs)")
        number = connection.execute("PRAGMA user_version").fetchone()[0] + 1
        connection.execute(f"PRAGMA user_version = {int(number)}")


def _remove_unused(own: Path, max_age_days: int) -> None:
    """The stores of workspaces where nobody has worked for so long."""
    for path in own.parent.glob("*.sqlite"):
        lock = claim_path(path)
        with suppress(OSError):  # somebody has it open, after all
            if path == own or lock.stat().st_mtime > time.time() - max_age_days * _DAY:
                continue
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", lock.name):
                    path.with_name(name).unlink(missing_ok=True)
            finally:
                os.close(descriptor)
