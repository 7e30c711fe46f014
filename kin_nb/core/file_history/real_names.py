"""The files that records mean: redaction takes secrets and this machine's folders out of their names, too.

Such a name may be another file's real one, or stand for several files: undo acts on none that is not surely meant. What
a change left at a path is in the store with the real path, so that is where it is found again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from kin_nb.core.file_history.blobs import BlobStore
from kin_nb.core.file_history.database import StoreError
from kin_nb.core.file_history.names import recorded_name
from kin_nb.core.file_history.plan import states, unknown_file
from kin_nb.core.records import FileChange
from kin_nb.core.redaction import SECRET, WORKSPACE

_MARKS = (SECRET, WORKSPACE, "~")
"""What redaction leaves. A name without them is whole; one with them may be, too."""


def real_names(
    store: BlobStore | None, changes: Sequence[FileChange], redact: Callable[[str], str]
) -> list[FileChange]:
    """`changes` with their files' whole names; where the file is not known, with a name that undo leaves alone."""
    return [
        change.model_copy(update={"path": _real_name(store, change, redact)})
        if any(mark in change.path for mark in _MARKS)
        else change
        for change in changes
    ]


def _real_name(store: BlobStore | None, change: FileChange, redact: Callable[[str], str]) -> str:
    try:
        names = {recorded_name(path) for path in _paths(store, change)} if store is not None else set()
    except StoreError:
        names = set()
    found = [name for name in names if redact(name) == change.path]
    return found[0] if len(found) == 1 else unknown_file(change.path)


def _paths(store: BlobStore, change: FileChange) -> Iterator[str]:
    """Those that were seen in both states of the change. Raises StoreError."""
    seen_in = "SELECT path FROM states WHERE mode = ? AND sha = ?"
    values = [value for state in states(change) for value in (state.mode, state.sha or "")]
    with store.database.reading() as connection:
        rows = connection.execute(f"{seen_in} INTERSECT {seen_in}", values).fetchall() if connection else []
    return (os.fsdecode(path) for (path,) in rows)
