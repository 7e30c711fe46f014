"""BlobStore: file contents by their sha256, in one database per workspace under `~/.kin-code/checkpoints`."""

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
"""Most bytes of contents for one workspace. The oldest contents are deleted first."""
MAX_AGE_DAYS = 30
_PRUNE_EVERY = 64_000_000
"""Bytes that are written between two checks of the limits."""
_DAY = 24 * 3600


def workspace_store(root: Path) -> BlobStore:
    """Return the store of the workspace at `root` (resolved). No file is created before the first write."""
    return BlobStore(kin_home() / "checkpoints" / f"{sha256(os.fsencode(root))}.sqlite")


class BlobStore:
    """A store of contents. Every method raises StoreError if the store cannot be used (full or read-only disk, locked).

    The limits are checked at the first write, and again after every _PRUNE_EVERY bytes.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, max_age_days: int = MAX_AGE_DAYS) -> None:
        self.database = Database(path)
        self._max_bytes, self._max_age_days = max_bytes, max_age_days
        self._until_prune = 0

    def put(self, data: bytes) -> str:
        """Store a content, and return its sha256."""
        sha = sha256(data)
        self.put_all([(sha, data)])
        return sha

    def put_all(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Store contents in one transaction. Contents that are stored already count as new again."""
        self.prune_when_due()
        with self.database.writing() as connection:
            self._until_prune -= insert(connection, contents)

    def get(self, sha: str) -> bytes | None:
        """Return a content; None if it is not stored, or does not match its hash."""
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
        """Delete contents that were not used for `max_age_days`, then the oldest until the rest has `max_bytes`.

        Contents are deleted for their age only while no other session, which may need them, has the store open. The
        known contents of the workspace's current files are deleted last.
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
        """Return a number that changes when contents are deleted."""
        with self.database.reading() as connection:
            return connection.execute("PRAGMA user_version").fetchone()[0] if connection else 0

    def close(self) -> None:
        self.database.close()


def insert(connection: sqlite3.Connection, contents: Iterable[tuple[str, bytes]]) -> int:
    """Insert contents, and return their size in bytes, including those that were stored already."""
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
    """Delete the stores of workspaces that were not used for `max_age_days`."""
    for path in own.parent.glob("*.sqlite"):
        lock = claim_path(path)
        with suppress(OSError):  # another process has it open
            if path == own or lock.stat().st_mtime > time.time() - max_age_days * _DAY:
                continue
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", lock.name):
                    path.with_name(name).unlink(missing_ok=True)
            finally:
                os.close(descriptor)
