"""What each session's tools wrote, for the other sessions in the same workspace: a scan cannot tell whose a change is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence

from kin_nb.core.file_history.blobs import BlobStore
from kin_nb.core.file_history.compare import Difference
from kin_nb.core.file_history.look import State
from kin_nb.core.file_history.names import recorded_name

_KEPT = 24 * 3600 * 1000
"""Milliseconds: longer than any command runs."""
_NAMED = 3


def now() -> int:
    """Milliseconds."""
    return time.time_ns() // 1_000_000


def note(store: BlobStore, session: str, written: Iterable[tuple[str, State]]) -> None:
    """(path, what `session` left there). Raises StoreError."""
    at = now()
    rows = [(os.fsencode(path), session, state.mode, state.sha or "", at) for path, state in written]
    if rows:
        with store.database.writing() as connection:
            connection.execute("DELETE FROM written WHERE at < ?", (at - _KEPT,))
            connection.executemany("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?, ?)", rows)


def without_others(
    store: BlobStore, session: str, since: int, found: Sequence[Difference]
) -> tuple[list[Difference], list[str]]:
    """`found` without what other sessions wrote since then, and the names of that. Raises StoreError.

    What changed again after another session wrote it is a change from there on: undo leaves theirs.
    """
    theirs = _theirs(store, session, since) if found else {}
    own = [change for change in found if theirs.get(change.path) != change.after]
    names = [recorded_name(change.path) for change in found if theirs.get(change.path) == change.after]
    return [change._replace(before=theirs.get(change.path, change.before)) for change in own], names


def said(names: Sequence[str]) -> Iterator[str]:
    """What is not covered: so many words for so many names."""
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        verb = "was" if len(names) == 1 else "were"
        yield f"{', '.join(names[:_NAMED])}{more} {verb} written by another session meanwhile"


def _theirs(store: BlobStore, session: str, since: int) -> dict[str, State]:
    """By path: the latest of what they left there."""
    with store.database.reading() as connection:
        if connection is None:
            return {}
        rows = connection.execute(
            "SELECT path, mode, sha FROM written WHERE session != ? AND at >= ? ORDER BY at", (session, since)
        ).fetchall()
    return {os.fsdecode(path): State(mode, sha or None) for path, mode, sha in rows}
