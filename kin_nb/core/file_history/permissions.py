"""The permissions that files had in the states that calls found and left: a record has the executable bit only.

A private file comes back private. And a state of a path outside of the workspace that is here was recorded on this
machine, whatever a notebook from elsewhere says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kin_nb.core.file_history.blobs import BlobStore
from kin_nb.core.file_history.look import State


def remember(store: BlobStore, rows: Iterable[tuple[str, State, int]]) -> None:
    """(path, state, permissions). Raises StoreError."""
    with store.database.writing() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)",
            [(os.fsencode(path), state.mode, state.sha or "", permissions) for path, state, permissions in rows],
        )


def permissions_of(store: BlobStore, path: str, state: State) -> int | None:
    """None when that state was never seen there. Raises StoreError."""
    with store.database.reading() as connection:
        row = (
            connection
            and connection.execute(
                "SELECT permissions FROM states WHERE path = ? AND mode = ? AND sha = ?",
                (os.fsencode(path), state.mode, state.sha or ""),
            ).fetchone()
        )
    return row[0] & 0o777 if row else None
