"""Which folders may have changed: asked, never told. No thread, no inotify, nothing runs between two questions.

A folder's modification time changes when a name in it comes, goes or changes; asking for it costs a microsecond or two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

_SETTLED = 2_000_000_000
"""Nanoseconds (the coarsest file system's clock): a time younger than this may cover a second change yet to come."""
_Mark = tuple[int, int, int]


class TreeWatcher:
    """Remembers how files and folders looked. Paths are relative to the root, with `/`; the root is ""."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[str, _Mark | None] = {}

    def watch(self, path: str) -> None:
        """Remember how `path` looks, present or not. Call it before you look: a later change is then not missed."""
        mark = self._mark(path)
        recent = mark is not None and 0 <= time.time_ns() - mark[0] < _SETTLED
        self._seen[path] = (-1, -1, -1) if recent else mark

    def forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._seen.pop(path, None)

    def changed(self, deadline: float) -> list[str]:
        """The paths that look different, or were too fresh to tell, until `watch` is called on them again.

        Stops at `deadline` (of time.monotonic); the next call goes on where this one stopped.
        """
        found = []
        for path in list(self._seen):
            if time.monotonic() > deadline:
                break
            mark = self._seen.pop(path)
            self._seen[path] = mark  # now the last to be asked again
            if self._mark(path) != mark:
                found.append(path)
        return found

    def _mark(self, path: str) -> _Mark | None:
        try:
            status = os.lstat(f"{self._root}/{path}")  # strings: a Path costs as much as the call
        except (OSError, ValueError):
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size
