"""The files that a call, or a record, names: looked at one by one, without a scan."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from kin_nb.core.file_history.look import FOLDER, NOTHING, Unknown, look_without_links
from kin_nb.core.file_history.names import file_name
from kin_nb.core.file_history.plan import states, why_forbidden
from kin_nb.core.file_history.scan import Limits, Skipped, Snapshot, skip_mark
from kin_nb.core.records import FileChange


def seen(root: Path, named: Iterable[str], limits: Limits, scan: Callable[[], Snapshot]) -> Snapshot:
    """Only these. One that is a folder needs a scan, and stands for all that is covered in it."""
    snapshot = Snapshot()
    for path in named:
        found = look_without_links(root / path, limits.named_bytes)
        if found.state == FOLDER:
            snapshot.add(scan() if path == "." else scan().below(path))
            continue
        _add_folder_above(snapshot, root, path)
        if found.state == NOTHING:
            continue
        if found.status is None:  # a folder above it cannot be entered, or is a link by now
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
    """Those of `changes` whose files are now as they left them, each once. Files over `limit` bytes are none of them."""
    return tuple(change for change in dict.fromkeys(changes) if _is_made(root, change, limit))


def _is_made(root: Path, change: FileChange, limit: int) -> bool:
    """A folder comes and goes with the files in it: where one side is a file, either will do for the other."""
    path, (before, after) = file_name(change.path), states(change)
    if why_forbidden(path):
        return False
    now = look_without_links(root / path, limit).state
    return now == after or (now != before and {now, after} <= {FOLDER, NOTHING})


def _add_folder_above(snapshot: Snapshot, root: Path, path: str) -> None:
    """The nearest one that is there: undo must not take one that held nothing for one that the call made."""
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
