"""Compare two snapshots: the changes that undo can restore, and a description of the others.

A snapshot is a scan of the workspace, or, for a call or a record that names its files, only of these (`seen`, `made`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kin_nb.core.file_history.file_state import (
    FOLDER,
    NOTHING,
    State,
    Unknown,
    file_name,
    observe_without_links,
    recorded_name,
)
from kin_nb.core.file_history.plan import states, why_forbidden
from kin_nb.core.file_history.scan import FolderSnapshot, ScanLimits, Skipped, skip_mark
from kin_nb.core.records import FileChange


def seen(root: Path, named: Iterable[str], limits: ScanLimits, scan: Callable[[], FolderSnapshot]) -> FolderSnapshot:
    """Return a snapshot of the files `named` only. A folder among them is scanned, with everything in it."""
    snapshot = FolderSnapshot()
    for path in named:
        found = observe_without_links(root / path, limits.named_bytes)
        if found.state == FOLDER:
            snapshot.add(scan() if path == "." else scan().below(path))
            continue
        _add_folder_above(snapshot, root, path)
        if found.state == NOTHING:
            continue
        if found.status is None:  # a folder above it cannot be entered, or has become a link
            snapshot.skipped[path] = Skipped(Unknown.UNREADABLE, 0, None)
            continue
        if found.state is None or found.state.sha is None:
            why = found.unknown or Unknown.UNREADABLE
            snapshot.skipped[path] = Skipped(why, found.status.st_size, skip_mark(found.status))
            continue
        snapshot.entries[path] = found.state
        snapshot.permissions[path] = stat.S_IMODE(found.status.st_mode)
        if found.content is not None:
            snapshot.contents[found.state.sha] = found.content
    return snapshot


def made(root: Path, changes: Iterable[FileChange], limit: int) -> tuple[FileChange, ...]:
    """Return the `changes`, without duplicates, whose files have not changed since. Files over `limit` bytes are omitted."""
    return tuple(change for change in dict.fromkeys(changes) if _is_made(root, change, limit))


def _is_made(root: Path, change: FileChange, limit: int) -> bool:
    """Whether the path is still as the change left it.

    A folder is created and removed with its files. So when a change is between a file and a folder or nothing, a folder
    and nothing are treated as equal.
    """
    path, (before, after) = file_name(change.path), states(change)
    if why_forbidden(path):
        return False
    now = observe_without_links(root / path, limit).state
    return now == after or (now != before and {now, after} <= {FOLDER, NOTHING})


def _add_folder_above(snapshot: FolderSnapshot, root: Path, path: str) -> None:
    """Add the nearest existing folder above `path`, so that undo keeps an empty folder that the call has not created."""
    above = path.rpartition("/")[0]
    while above:
        place = root / above
        try:
            permissions = stat.S_IMODE(place.lstat().st_mode)
            with os.scandir(place) as items:
                holds_something = next(items, None) is not None
        except OSError:
            above = above.rpartition("/")[0]
            continue
        snapshot.permissions[above] = permissions
        snapshot.folders.add(above)
        if not holds_something:
            snapshot.entries[above] = FOLDER
        return


_NAMED = 3
"""Most names in a list of what undo does not cover; the others are only counted."""
_MADE_AGAIN = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints"})
"""Ignored folders that programs create again when needed. Changes of them are not mentioned."""
_GIT = ".git"
"""Changes with every git command. It is not mentioned, because a changed HEAD is reported separately."""

See: TypeAlias = Callable[[str], State | None]
"""Returns the current state of a path; None if it is unknown."""


class Difference(NamedTuple):
    path: str
    before: State
    after: State


def differences(before: FolderSnapshot, after: FolderSnapshot, see: See) -> Iterator[Difference]:
    """Yield the differences by path, for paths whose state is known in both snapshots, or that certainly did not exist.

    A path that `before` skipped is not a difference.
    """
    paths = before.entries.keys() if before.cut else before.entries.keys() | after.entries.keys()
    for path in sorted(paths):
        old, new = before.entries.get(path), after.entries.get(path)
        if old == new or (old is None and before.why_skipped(path)):
            continue
        if new is None:
            new = _now(path, after, see)
            if new == FOLDER:  # `see` does not tell whether the folder is empty
                new = old if old == FOLDER else NOTHING
        if new is None and path in after.skipped and after.skipped[path].why is Unknown.SPECIAL:
            new = NOTHING  # the file was replaced by a pipe or socket: undo restores it once that is removed
        if new is not None and new != (old or NOTHING):
            yield Difference(path, old or NOTHING, new)


def _now(path: str, after: FolderSnapshot, see: See) -> State | None:
    """Return the current state of a path without an entry in `after`; None if it is unknown."""
    if path in after.folders:
        return NOTHING  # a folder that is not empty now: its files have entries
    why = after.why_skipped(path)
    if why is None and (not after.cut or _is_below_a_file(path, after)):
        return NOTHING
    if why not in {None, Unknown.IGNORED}:
        return None
    return see(path)


def _is_below_a_file(path: str, after: FolderSnapshot) -> bool:
    """Whether a folder above the path has become a file or a link, which must not be followed."""
    above = path.rpartition("/")[0]
    while above:
        if after.entries.get(above, FOLDER) != FOLDER:
            return True
        above = above.rpartition("/")[0]
    return False


def permissions_changed(found: Sequence[Difference], before: FolderSnapshot, after: FolderSnapshot) -> list[str]:
    """Name the paths of which only the permissions changed, files before folders.

    The permissions of changed files are not among them, because undo restores them with the file.
    """
    others = before.permissions.keys() & after.permissions.keys() - {path for path, *_ in found}
    changed = [path for path in others if (before.permissions[path] ^ after.permissions[path]) & 0o7777]
    paths = sorted(changed, key=lambda path: (path in before.folders, path))
    more = [f"{len(paths) - _NAMED} more permissions"] if len(paths) > _NAMED else []
    return [f"permissions of {recorded_name(path)}" for path in paths[:_NAMED]] + more


def not_covered(before: FolderSnapshot, after: FolderSnapshot, root: Path, file_bytes: int, more: Sequence[str]) -> str:
    """Say in a sentence what changed that undo does not restore; "" if no such change is known."""
    parts = [cut for cut in dict.fromkeys((before.cut, after.cut)) if cut]
    if not before.cut:
        paths = sorted({*before.skipped, *after.skipped})
        found = [text for path in paths if (text := _said(path, before, after, root, file_bytes))]
        parts += found[:_NAMED]
        if len(found) > _NAMED:
            parts.append(f"{len(found) - _NAMED} more like these")
    parts += more
    return f"not covered: {'; '.join(parts)}" if parts else ""


def _said(path: str, before: FolderSnapshot, after: FolderSnapshot, root: Path, file_bytes: int) -> str:
    old, new = before.skipped.get(path), after.skipped.get(path)
    skipped = new or old
    name = path.rpartition("/")[2]
    if skipped is None or name in _MADE_AGAIN or (old and new and (old.mark == new.mark or name == _GIT)):
        return ""
    what = _what(skipped, file_bytes)
    if new is not None and old is None:
        was_covered = path in before.entries or path in before.folders
        if skipped.why is Unknown.IGNORED or before.why_skipped(path):
            return ""  # undo restores it in spite of that, or it was not visible before
        if skipped.why is not Unknown.LARGE and not was_covered:
            return ""  # a new file that is not covered: no earlier content is lost
        return f"{_shown(path, skipped)} {'changed' if was_covered else 'is new'} and is {what}"
    if new is None:  # deleted, covered now, or not reachable
        try:
            if skip_mark(os.lstat(root / path)) == skipped.mark:
                return ""
        except OSError:
            return f"{_shown(path, skipped)} is gone and was {what}"
    return f"{_shown(path, skipped)} changed and {'is' if new else 'was'} {what}"


def _shown(path: str, skipped: Skipped) -> str:
    size = f" ({skipped.size / 1_000_000:.1f} MB)" if skipped.why is Unknown.LARGE else ""
    return recorded_name(path) + size


def _what(skipped: Skipped, file_bytes: int) -> str:
    return f"over {file_bytes / 1_000_000:g} MB" if skipped.why is Unknown.LARGE else skipped.why.value
