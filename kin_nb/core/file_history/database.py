"""One SQLite database: opened at its first use, shared by threads and processes, and intact after a kill.

It uses write-ahead logging, so that transactions are atomic. `PRAGMA user_version` counts how often contents were deleted.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kin_nb.core.paths import private_folder, shown

_BUSY_SECONDS = 3.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blobs (sha TEXT PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS blobs_used ON blobs (used, size);
CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER, ctime INTEGER, inode INTEGER, mode INTEGER,
    sha TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_sha ON files (sha);
CREATE TABLE IF NOT EXISTS states (path BLOB, mode TEXT, sha TEXT, permissions INTEGER NOT NULL, PRIMARY KEY (path, mode, sha))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running (session TEXT, call TEXT, begun INTEGER, before BLOB, PRIMARY KEY (session, call));
CREATE TABLE IF NOT EXISTS written (path BLOB, session TEXT, mode TEXT, sha TEXT, at INTEGER, PRIMARY KEY (path, session));
"""
_IS_WHOLE = "SELECT 1 FROM sqlite_master WHERE name = 'written'"
"""Checks for the table that was added to the schema last."""


class StoreError(Exception):
    """Contents cannot be stored or read. The text says where and why."""


class Database:
    """A database for all threads, one at a time. The files are created at the first write, readable by their owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._claim = -1
        self._close: weakref.finalize[..., Database] | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection; None if the database does not exist. Database errors in the block become StoreError."""
        with self._lock, self._explained():
            yield self._open() if self._connection is not None or self.path.exists() else None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction. Database errors in the block become StoreError."""
        with self._lock, self._explained():
            if self._connection is None:
                self._make()
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled it back already
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        with self._lock:
            if self._close is not None:
                self._close()
            self._connection, self._claim = None, -1

    def is_ours_alone(self) -> bool:
        """Whether no other process, and no other store of this process, has it open. False if that is unknown."""
        if self._claim < 0:
            return False
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with suppress(OSError):  # a failed change of a lock releases the old lock
                fcntl.flock(self._claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        fcntl.flock(self._claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True

    def _make(self) -> None:
        private_folder(self.path.parent)
        with suppress(FileExistsError):  # opening and closing an existing file would release SQLite's locks on it
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            claim = _claimed(self.path)
            connection = None
            try:
                connection = sqlite3.connect(
                    self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                _prepare(connection)
            except BaseException:
                _release(connection, claim)
                raise
            self._connection, self._claim = connection, claim
            self._close = weakref.finalize(self, _release, connection, claim)
        return self._connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise StoreError(f"the file history in {shown(self.path.parent)} cannot be used ({why.lower()})") from error


def claim_path(path: Path) -> Path:
    """Return the lock file, on which each open database holds a shared lock. Its mtime is when it was last opened."""
    return path.with_suffix(".lock")


def _claimed(path: Path) -> int:
    """Lock the lock file, and return its descriptor; -1 if it cannot be created (read-only disk)."""
    try:
        claim = os.open(claim_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1
    with suppress(OSError):
        os.utime(claim)
        fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return claim


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute(_IS_WHOLE).fetchone():
        return
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    with suppress(sqlite3.OperationalError):  # another process does it now, or the file system cannot
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not connection.execute(_IS_WHOLE).fetchone():
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _release(connection: sqlite3.Connection | None, claim: int) -> None:
    if connection is not None:
        with suppress(sqlite3.Error):
            connection.close()
    if claim >= 0:
        os.close(claim)
