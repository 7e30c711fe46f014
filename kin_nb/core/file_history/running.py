"""How files were before the calls that run just now: kept, so that a kill does not lose what they changed."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection
from dataclasses import astuple, dataclass
from typing import Any

from kin_nb.core.file_history.blobs import MAX_AGE_DAYS, BlobStore
from kin_nb.core.file_history.look import State, Unknown
from kin_nb.core.file_history.scan import Skipped, Snapshot
from kin_nb.core.workspace_commit import GitHead


@dataclass(frozen=True)
class Before:
    """How files were before a call: what `changes` needs. `named`: what the call said it would write; None: anything.

    `begun`: when it was looked at, in milliseconds. `unkept`: why undo may not restore what the call changes, "" when it can.
    """

    snapshot: Snapshot
    named: tuple[str, ...] | None = None
    head: GitHead | None = None
    begun: int = 0
    unkept: str = ""


def keep(store: BlobStore, session: str, call_id: str, before: Before, answered: Collection[str]) -> None:
    """Until `forget`; those of the calls in `answered` go. Contents are the store's business. Raises StoreError."""
    now = int(time.time())
    data = zlib.compress(json.dumps(_dumped(before), separators=(",", ":")).encode(), 1)
    with store.database.writing() as connection:
        connection.executemany(
            "DELETE FROM running WHERE session = ? AND call = ?", [(session, id_) for id_ in answered]
        )
        connection.execute("DELETE FROM running WHERE begun < ?", (now - MAX_AGE_DAYS * 24 * 3600,))
        connection.execute("INSERT OR REPLACE INTO running VALUES (?, ?, ?, ?)", (session, call_id, now, data))


def kept(store: BlobStore, session: str) -> dict[str, Before]:
    """By the calls' ids. Raises StoreError."""
    with store.database.reading() as connection:
        if connection is None:
            return {}
        rows = connection.execute("SELECT call, before FROM running WHERE session = ?", (session,)).fetchall()
    return {call_id: _loaded(json.loads(zlib.decompress(data))) for call_id, data in rows}


def forget(store: BlobStore, session: str) -> None:
    """All of the session's. Raises StoreError."""
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
    snapshot = Snapshot(
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
