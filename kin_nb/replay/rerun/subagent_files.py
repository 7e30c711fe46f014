"""Recorded changes of files, made again from their patches: a subagent's, whose words to its model are in no recording; and
those of a playback in a scratch copy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kin_nb.core.safety.secrets import SECRET, WORKSPACE
from kin_nb.core.session.file_history import BlobStore, FileHistory, StoreError, workspace_store
from kin_nb.core.session.file_history.patches import patched
from kin_nb.core.session.file_history.plan import CHANGED_SINCE
from kin_nb.core.session.records import FileChange, sha256

OUTSIDE = "it is outside of the workspace"
NOT_HELD = "the recording does not hold what was written there"
_LARGEST = 2_000_000
"""Bytes: larger files have no patch in a recording."""
_NOT_AS_IT_WAS = dict.fromkeys((CHANGED_SINCE, "you deleted it since"), "it is not what it was when that was recorded")
"""What undo says of a file, in words for a run that does a recording again."""


def write_again(root: Path, changes: Sequence[FileChange]) -> dict[str, str]:
    """Change the files of the workspace at `root` as recorded; (path -> why) for those that no recording can give back.

    A file is written only where its content comes out to the byte, by its hash. One that is not now what it was then
    stays as it is, as undo has it (core.session.file_history), and is not among those returned.
    """
    return _written(root, changes, workspace_store(root))[0]


def change_again(root: Path, changes: Sequence[FileChange], store: BlobStore) -> dict[str, str]:
    """As `write_again`, with contents kept in `store`; those that are not now what they were then are returned too."""
    missing, kept = _written(root, changes, store)
    return kept | missing


def _written(root: Path, changes: Sequence[FileChange], store: BlobStore) -> tuple[dict[str, str], dict[str, str]]:
    """(what the recording does not hold, what stays as it is): path -> why."""
    history = FileHistory(root, store)
    missing: dict[str, str] = {}
    kept: dict[str, str] = {}
    possible = []
    try:
        for change in changes:
            why = _why_not(root, store, change)
            if why:
                missing[change.path] = why
            else:
                possible.append(change)
        kept = {path: _NOT_AS_IT_WAS.get(why, why) for path, why in history.redo(possible).kept}
    except StoreError as error:  # full, or locked: what was not written is drift
        kept = {change.path: f"contents cannot be kept: {error}" for change in changes}
    finally:
        history.close()
    return missing, kept


def _why_not(root: Path, store: BlobStore, change: FileChange) -> str:
    """Empty when `store` has the new content now, or would have it if the file were what it was. Raises StoreError."""
    if change.path.startswith(("/", "~/")):
        return OUTSIDE
    if WORKSPACE in change.path or SECRET in change.path:
        return NOT_HELD
    if change.after is None or store.has(change.after):
        return ""
    if change.patch is None:
        return NOT_HELD
    before = b"" if change.before is None else store.get(change.before) or _there(root, change)
    if before is None:
        return ""
    after = patched(before.decode(errors="replace"), change.patch).encode(errors="replace")
    if sha256(after) != change.after:
        return NOT_HELD
    store.put(after)
    return ""


def _there(root: Path, change: FileChange) -> bytes | None:
    """The old content, where the file has it."""
    path = root / change.path
    with suppress(OSError, ValueError):
        if ".." not in path.parts and path.is_file() and path.stat().st_size <= _LARGEST:
            data = path.read_bytes()
            return data if sha256(data) == change.before else None
    return None
