"""The other tables of the store: permissions, the states of files before running calls, and written files.

* Permissions: records have only the executable bit, and a private file must stay private when it is restored. They also
  prove that a state of a path outside the workspace was recorded on this machine, whatever a copied notebook says.
* The states of files before running calls: after a kill, the changes of these calls are still found.
* The files that each session's tools wrote, for other sessions in the same workspace, since a scan does not show which
  session made a change.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from kin_nb.core.file_history.blobs import MAX_AGE_DAYS, BlobStore
from kin_nb.core.file_history.compare import Difference
from kin_nb.core.file_history.file_state import State, Unknown, recorded_name
from kin_nb.core.file_history.scan import FolderSnapshot, Skipped
from kin_nb.core.text import listed
from kin_nb.core.workspace_commit import GitHead

_KEEP_WRITTEN = 24 * 3600 * 1000
"""Milliseconds until a note of a written file is deleted: longer than any command runs."""
_NAMED = 3


def milliseconds_now() -> int:
    """Return the current time as `Before.begun` and the notes of written files have it."""
    return time.time_ns() // 1_000_000


def note_permissions(store: BlobStore, rows: Iterable[tuple[str, State, int]]) -> None:
    """Store rows of path, state and permissions. Raises StoreError."""
    with store.database.writing() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)",
            [(os.fsencode(path), state.mode, state.sha or "", permissions) for path, state, permissions in rows],
        )


def permissions_of(store: BlobStore, path: str, state: State) -> int | None:
    """Return the permissions of a path in that state; None if it was never seen. Raises StoreError."""
    with store.database.reading() as connection:
        row = (
            connection
            and connection.execute(
                "SELECT permissions FROM states WHERE path = ? AND mode = ? AND sha = ?",
                (os.fsencode(path), state.mode, state.sha or ""),
            ).fetchone()
        )
    return row[0] & 0o777 if row else None


def paths_in_states(store: BlobStore, before: State, after: State) -> list[str]:
    """Return the paths that were seen in both states. Raises StoreError."""
    seen_in = "SELECT path FROM states WHERE mode = ? AND sha = ?"
    values = [value for state in (before, after) for value in (state.mode, state.sha or "")]
    with store.database.reading() as connection:
        rows = connection.execute(f"{seen_in} INTERSECT {seen_in}", values).fetchall() if connection else []
    return [os.fsdecode(path) for (path,) in rows]


@dataclass(frozen=True)
class Before:
    """The state of files before a call, for `changes`. `named`: the files that the call writes; None: it may write any.

    `begun`: when the state was read, in milliseconds. `unkept`: why undo may not restore the call's changes, else "".
    """

    snapshot: FolderSnapshot
    named: tuple[str, ...] | None = None
    head: GitHead | None = None
    begun: int = 0
    unkept: str = ""


def keep_before(store: BlobStore, session: str, call_id: str, before: Before, answered: Collection[str]) -> None:
    """Store `before` without contents until `forget_before`, and delete those of the `answered` calls. Raises StoreError."""
    now = int(time.time())
    data = zlib.compress(json.dumps(_dumped(before), separators=(",", ":")).encode(), 1)
    with store.database.writing() as connection:
        connection.executemany(
            "DELETE FROM running WHERE session = ? AND call = ?", [(session, id_) for id_ in answered]
        )
        connection.execute("DELETE FROM running WHERE begun < ?", (now - MAX_AGE_DAYS * 24 * 3600,))
        connection.execute("INSERT OR REPLACE INTO running VALUES (?, ?, ?, ?)", (session, call_id, now, data))


def kept_before(store: BlobStore, session: str) -> dict[str, Before]:
    """Return the stored states of a session by the calls' ids. Raises StoreError."""
    with store.database.reading() as connection:
        if connection is None:
            return {}
        rows = connection.execute("SELECT call, before FROM running WHERE session = ?", (session,)).fetchall()
    return {call_id: _loaded(json.loads(zlib.decompress(data))) for call_id, data in rows}


def forget_before(store: BlobStore, session: str) -> None:
    """Delete all stored states of the session. Raises StoreError."""
    with store.database.reading() as connection:
        found = connection and connection.execute("SELECT 1 FROM running WHERE session = ?", (session,)).fetchone()
    if found:
        with store.database.writing() as connection:
            connection.execute("DELETE FROM running WHERE session = ?", (session,))


def _dumped(before: Before) -> dict[str, Any]:
    seen = before.snapshot
    return {
        "entries": seen.entries,
        "permissions": seen.permissions,
        "folders": sorted(seen.folders),
        "skipped": {path: (what.why.name, what.size, what.mark) for path, what in seen.skipped.items()},
        "cut": seen.cut,
        "unkept": before.unkept,
        "named": before.named,
        "head": before.head and astuple(before.head),
        "begun": before.begun,
    }


def _loaded(fields: dict[str, Any]) -> Before:
    snapshot = FolderSnapshot(
        entries={path: State(*state) for path, state in fields["entries"].items()},
        permissions=fields["permissions"],
        folders=set(fields["folders"]),
        skipped={
            path: Skipped(Unknown[why], size, None if mark is None else tuple(mark))
            for path, (why, size, mark) in fields["skipped"].items()
        },
        cut=fields["cut"],
    )
    named, head = fields["named"], fields["head"]
    return Before(
        snapshot,
        None if named is None else tuple(named),
        None if head is None else GitHead(*head),
        fields.get("begun", 0),
        fields.get("unkept", ""),
    )


def note_written(store: BlobStore, session: str, written: Iterable[tuple[str, State]]) -> None:
    """Store the path and the new state of each file that `session` wrote. Raises StoreError."""
    at = milliseconds_now()
    rows = [(os.fsencode(path), session, state.mode, state.sha or "", at) for path, state in written]
    if rows:
        with store.database.writing() as connection:
            connection.execute("DELETE FROM written WHERE at < ?", (at - _KEEP_WRITTEN,))
            connection.executemany("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?, ?)", rows)


def exclude_other_sessions(
    store: BlobStore, session: str, since: int, found: Sequence[Difference]
) -> tuple[list[Difference], list[str]]:
    """Return `found` without the files that other sessions wrote since then, and the names of these. Raises StoreError.

    If a file changed again after another session wrote it, the change begins there: undo restores what that session wrote.
    """
    theirs = _theirs(store, session, since) if found else {}
    own = [change for change in found if theirs.get(change.path) != change.after]
    names = [recorded_name(change.path) for change in found if theirs.get(change.path) == change.after]
    return [change._replace(before=theirs.get(change.path, change.before)) for change in own], names


def written_by_others(names: Sequence[str]) -> Iterator[str]:
    """Yield the text about files that other sessions wrote, if there are any."""
    if names:
        verb = "was" if len(names) == 1 else "were"
        yield f"{listed(names, _NAMED)} {verb} written by another session meanwhile"


def _theirs(store: BlobStore, session: str, since: int) -> dict[str, State]:
    """Return the last state that other sessions have written, by path."""
    with store.database.reading() as connection:
        if connection is None:
            return {}
        rows = connection.execute(
            "SELECT path, mode, sha FROM written WHERE session != ? AND at >= ? ORDER BY at", (session, since)
        ).fetchall()
    return {os.fsdecode(path): State(mode, sha or None) for path, mode, sha in rows}
