"""What is different between two snapshots; and what may be, that nobody kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kin_nb.core.file_history.look import FOLDER, NOTHING, State, Unknown
from kin_nb.core.file_history.names import recorded_name
from kin_nb.core.file_history.scan import Skipped, Snapshot, skip_mark

_NAMED = 3
"""Of what is not covered; the others are counted."""
_MADE_AGAIN = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints"})
"""Ignored folders that come back by themselves: nobody misses them."""
_GIT = ".git"
"""Changes with whatever git does, which is said otherwise (its HEAD moved)."""

See: TypeAlias = Callable[[str], State | None]
"""What is at a path just now; None when that cannot be known."""


class Difference(NamedTuple):
    path: str
    before: State
    after: State


def differences(before: Snapshot, after: Snapshot, see: See) -> Iterator[Difference]:
    """By path. Only what was seen on both sides, or surely was not there: what `before` had skipped is no news."""
    paths = before.entries.keys() if before.cut else before.entries.keys() | after.entries.keys()
    for path in sorted(paths):
        old, new = before.entries.get(path), after.entries.get(path)
        if old == new or (old is None and before.why_skipped(path)):
            continue
        if new is None:
            new = _now(path, after, see)
            if new == FOLDER:  # seen from outside: whether it holds something is not known
                new = old if old == FOLDER else NOTHING
        if new is None and path in after.skipped and after.skipped[path].why is Unknown.SPECIAL:
            new = NOTHING  # no file any more: once the pipe or socket is gone, undo puts it back
        if new is not None and new != (old or NOTHING):
            yield Difference(path, old or NOTHING, new)


def _now(path: str, after: Snapshot, see: See) -> State | None:
    """Of a path that `after` has no entry for. None: not known."""
    if path in after.folders:
        return NOTHING  # it holds something now, which has entries of its own
    why = after.why_skipped(path)
    if why is None and (not after.cut or _is_below_a_file(path, after)):
        return NOTHING
    if why not in {None, Unknown.IGNORED}:
        return None
    return see(path)


def _is_below_a_file(path: str, after: Snapshot) -> bool:
    """A folder above it became a file or a link, which must not be followed."""
    above = path.rpartition("/")[0]
    while above:
        if after.entries.get(above, FOLDER) != FOLDER:
            return True
        above = above.rpartition("/")[0]
    return False


def permissions_changed(found: Sequence[Difference], before: Snapshot, after: Snapshot) -> list[str]:
    """Of what is otherwise as it was: with a file that changed, its permissions come back. Files before folders."""
    others = before.permissions.keys() & after.permissions.keys() - {path for path, *_ in found}
    changed = [path for path in others if (before.permissions[path] ^ after.permissions[path]) & 0o7777]
    paths = sorted(changed, key=lambda path: (path in before.folders, path))
    more = [f"{len(paths) - _NAMED} more permissions"] if len(paths) > _NAMED else []
    return [f"permissions of {recorded_name(path)}" for path in paths[:_NAMED]] + more


def not_covered(before: Snapshot, after: Snapshot, root: Path, file_bytes: int, more: Sequence[str]) -> str:
    """What changed and does not come back by undo, in a sentence; "" when that is nothing that is known of."""
    parts = [cut for cut in dict.fromkeys((before.cut, after.cut)) if cut]
    if not before.cut:
        paths = sorted({*before.skipped, *after.skipped})
        found = [text for path in paths if (text := _said(path, before, after, root, file_bytes))]
        parts += found[:_NAMED]
        if len(found) > _NAMED:
            parts.append(f"{len(found) - _NAMED} more like these")
    parts += more
    return f"not covered: {'; '.join(parts)}" if parts else ""


def _said(path: str, before: Snapshot, after: Snapshot, root: Path, file_bytes: int) -> str:
    old, new = before.skipped.get(path), after.skipped.get(path)
    skipped = new or old
    name = path.rpartition("/")[2]
    if skipped is None or name in _MADE_AGAIN or (old and new and (old.mark == new.mark or name == _GIT)):
        return ""
    what = _what(skipped, file_bytes)
    if new is not None and old is None:
        was_covered = path in before.entries or path in before.folders
        if skipped.why is Unknown.IGNORED or before.why_skipped(path):
            return ""  # undo brings it back all the same; or it is seen only now
        if skipped.why is not Unknown.LARGE and not was_covered:
            return ""  # nothing is lost with it
        return f"{_shown(path, skipped)} {'changed' if was_covered else 'is new'} and is {what}"
    if new is None:  # gone, or covered now, or out of sight
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
