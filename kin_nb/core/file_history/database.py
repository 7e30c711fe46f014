"""One SQLite file of this machine: opened at first use, shared by threads and processes, whole after a kill.

Write-ahead logging: a transaction is there or not. `PRAGMA user_version` counts the times that contents were given up.
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
"""The table that came last."""


class StoreError(Exception):
    """Contents cannot be kept or read. The text says where and why."""


class Database:
    """For any thread, one at a time. Files are made with the first write, for their owner's eyes only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._claim = -1
        self._close: weakref.finalize[..., Database] | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """None where nothing was ever written. Raises StoreError, also for what the body asks."""
        with self._lock, self._explained():
            yield self._open() if self._connection is not None or self.path.exists() else None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the body, or nothing. Raises StoreError, also for what the body does."""
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
        """Whether no other process (or store of this one) has it open. False where that cannot be known."""
        if self._claim < 0:
            return False
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with suppress(OSError):  # changing a lock gives up the old one
                fcntl.flock(self._claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        fcntl.flock(self._claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True

    def _make(self) -> None:
        private_folder(self.path.parent)
        with suppress(FileExistsError):  # opening it again would drop the locks that SQLite has on it
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
    """Locked, shared, by whoever has the database open; its time of change is when that was last begun."""
    return path.with_suffix(".lock")


def _claimed(path: Path) -> int:
    """The lock's descriptor, -1 where there can be none: a read-only disk, a file system without locks."""
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
    with suppress(sqlite3.OperationalError):  # another process does the same just now, or the file system cannot
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
