"""What a recorded subagent changed in files, done again: what it said to its model is in no recording, its patches are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kin_nb.core.safety.secrets import SECRET, WORKSPACE
from kin_nb.core.session.file_history import BlobStore, FileHistory, StoreError, workspace_store
from kin_nb.core.session.records import FileChange, sha256

OUTSIDE = "it is outside of the workspace"
NOT_HELD = "the recording does not hold what was written there"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")


def write_again(root: Path, changes: Sequence[FileChange]) -> dict[str, str]:
    """Change the files of the workspace at `root` as recorded; (path -> why) for those that no recording can give back.

    A file is written only where its content comes out to the byte, by its hash. One that is not now what it was then
    stays as it is, as undo has it (core.session.file_history), and is not among those returned.
    """
    store = workspace_store(root)
    history = FileHistory(root, store)
    missing: dict[str, str] = {}
    possible = []
    try:
        for change in changes:
            why = _why_not(store, change)
            if why:
                missing[change.path] = why
            else:
                possible.append(change)
        history.redo(possible)
    except StoreError:  # full, or locked: what was not written is drift
        return missing
    finally:
        history.close()
    return missing


def _why_not(store: BlobStore, change: FileChange) -> str:
    """Empty when `store` has the new content now, or would have it if the file were what it was. Raises StoreError."""
    if change.path.startswith(("/", "~/")):
        return OUTSIDE
    if WORKSPACE in change.path or SECRET in change.path:
        return NOT_HELD
    if change.after is None or store.has(change.after):
        return ""
    if change.patch is None:
        return NOT_HELD
    before = store.get(change.before) if change.before is not None else b""
    if before is None:
        return ""
    after = patched(before.decode(errors="replace"), change.patch).encode(errors="replace")
    if sha256(after) != change.after:
        return NOT_HELD
    store.put(after)
    return ""


def patched(old: str, patch: str) -> str:
    """`old` with a unified diff applied, taken at its word: whether it fits is told by the hash of what comes out."""
    before: list[str] = re.findall(r"[^\n]*\n|[^\n]+", old)
    after: list[str] = []
    at, last = 0, ""
    for row in patch.split("\n")[2:-1]:
        mark, text = row[:1], f"{row[1:]}\n"
        if hunk := _HUNK.match(row):
            start = int(hunk[1]) - (hunk[2] != "0")
            after += before[at:start]
            at = start
        elif mark == "+":
            after.append(text)
        elif mark == "\\" and last == "+":  # that line ends without a newline
            after[-1] = after[-1].removesuffix("\n")
        elif mark in {" ", "-"}:
            after += before[at : at + 1] if mark == " " else ()
            at += 1
        last = mark
    return "".join([*after, *before[at:]])
