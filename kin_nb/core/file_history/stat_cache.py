"""Which content a file has, as long as it looks the same: so that an unchanged file costs one lstat.

A file that changed just before it was read may change again within the same tick of the clock and look the same: it is
not remembered, as git does not believe such a file either.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from typing import TypeAlias

from kin_nb.core.file_history.blobs import BlobStore, insert
from kin_nb.core.file_history.look import mark

_TICK = 2_000_000_000
"""Nanoseconds: the coarsest clock of a file system."""
_BATCH_FILES, _BATCH_BYTES = 2_000, 8_000_000

Mark: TypeAlias = tuple[int, int, int, int, int]
_Row: TypeAlias = tuple[Mark, str]


class StatCache:
    """A workspace's files as they were last seen, each with its content in the store. For one thread at a time."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._rows: dict[str, _Row] = {}
        self._generation = -1
        self._contents: list[tuple[str, bytes]] = []
        self._new: dict[str, _Row] = {}
        self._bytes = 0

    def refresh(self) -> None:
        """Before a scan: drop what the store has given up. Raises StoreError."""
        self._store.prune_when_due()
        generation = self._store.generation()
        if generation == self._generation:
            return
        with self._store.database.reading() as connection:
            rows = connection.execute("SELECT * FROM files") if connection else ()
            self._rows = {os.fsdecode(path): (tuple(known), sha) for path, *known, sha in rows}
        self._generation = generation

    def sha(self, path: str, status: os.stat_result) -> str | None:
        row = self._rows.get(path)
        return row[1] if row is not None and row[0] == mark(status) else None

    def keep(self, path: str, sha: str, content: bytes, status: os.stat_result, *, settled: bool, read_at: int) -> None:
        """Content that was read at `read_at` (time.time_ns before it). Raises StoreError."""
        self._contents.append((sha, content))
        self._bytes += len(content)
        if settled and not _is_fresh(status, read_at):
            self._new[path] = mark(status), sha
        if len(self._contents) >= _BATCH_FILES or self._bytes >= _BATCH_BYTES:
            self.flush()

    def forget(self, gone: Iterable[str]) -> None:
        """Files that are no longer there. Raises StoreError."""
        paths = [path for path in gone if self._rows.pop(path, None)]
        if paths:
            with self._store.database.writing() as connection:
                _make_young(connection, paths)
                connection.executemany("DELETE FROM files WHERE path = ?", [(os.fsencode(path),) for path in paths])

    def flush(self) -> None:
        """Into the store. Raises StoreError; what could not be kept is forgotten."""
        contents, new = self._contents, self._new
        self._contents, self._new, self._bytes = [], {}, 0
        if not contents:
            return
        with self._store.database.writing() as connection:
            insert(connection, contents)
            _make_young(connection, [path for path in new if path in self._rows])
            connection.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(os.fsencode(path), *known, sha) for path, (known, sha) in new.items()],
            )
        self._rows |= new

    def paths(self) -> Iterable[str]:
        return self._rows.keys()


def _make_young(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """The content that a file had until now is what undo needs first: it must not be the oldest that there is."""
    now = int(time.time())
    connection.executemany(
        "UPDATE blobs SET used = ? WHERE sha = (SELECT sha FROM files WHERE path = ?)",
        [(now, os.fsencode(path)) for path in paths],
    )


def _is_fresh(status: os.stat_result, read_at: int) -> bool:
    """Changed within the same tick, or by a clock that is ahead of ours."""
    return read_at - status.st_ctime_ns < _TICK or 0 <= read_at - status.st_mtime_ns < _TICK
