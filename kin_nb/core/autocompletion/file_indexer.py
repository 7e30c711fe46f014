"""An index of the workspace's files, current enough to complete a path while the user types: `FileIndexer`.

It combines the known files (`FileStore`) with the folders that may have changed (`TreeWatcher`). Both are polled, never
notified: no thread, no inotify, nothing runs between two queries. A folder's modification time changes when a name in it is
added, removed or renamed; reading it costs a microsecond or two. Never raises for the state of the disk: a folder that cannot
be read is empty.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from kin_nb.core.ignore_rules import Entry, IgnoreRules, list_folder, rule_files


class FileStore:
    """Paths are relative to the root, with `/`; the root is ""."""

    def __init__(self) -> None:
        self._folders: dict[str, Sequence[Entry]] = {}
        self._all: tuple[Entry, ...] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, folder: str) -> bool:
        return folder in self._folders

    def entries(self) -> Sequence[Entry]:
        """Every entry, in no order that means anything. The same object until something changes."""
        if self._all is None:
            self._all = tuple(entry for entries in self._folders.values() for entry in entries)
        return self._all

    def children(self, folder: str) -> Sequence[Entry]:
        return self._folders.get(folder, ())

    def put(self, folder: str, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
        """What is in a folder now. Returns the folders in it that are new, and all that went, those in them too."""
        if entries == self._folders.get(folder):
            return [], []
        before = {entry.path for entry in self.children(folder) if entry.is_dir}
        now = {entry.path for entry in entries if entry.is_dir}
        self._count += len(entries) - len(self.children(folder))
        self._folders[folder] = entries
        self._all = None
        return sorted(now - before), self._remove(before - now)

    def _remove(self, folders: set[str]) -> list[str]:
        gone = sorted(folders)
        for folder in gone:  # grows on the way
            entries = self._folders.pop(folder, ())
            self._count -= len(entries)
            gone += [entry.path for entry in entries if entry.is_dir]
        return gone


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

        Stops at `deadline` (of time.monotonic); the next call continues where this one stopped.
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


FIRST_SECONDS = 2.0
LATER_SECONDS = 0.25
MOST_ENTRIES = 50_000


class FileIndexer:
    """An index that is made at the first question and brought up to date at each later one.

    Bounded: the first question takes about `FIRST_SECONDS` at most, a later one `LATER_SECONDS`, and continues where the
    one before it stopped; what is near the root comes first. For one thread at a time.
    """

    def __init__(self, root: Path, *, most: int = MOST_ENTRIES) -> None:
        self._root = root
        self._most = most
        self._start_over()

    @property
    def truncated(self) -> bool:
        """Whether the last answer left folders out: too many entries, or too little time so far."""
        return bool(self._unlisted or self._cut)

    def entries(self) -> Sequence[Entry]:
        """All files and folders that are not ignored. The same object as before when nothing has changed."""
        self._refresh()
        return self._store.entries()

    def children(self, folder: str) -> Sequence[Entry]:
        """What is in a folder (relative to the root, "" for the root), by name."""
        self._refresh()
        return self._store.children(folder)

    def _start_over(self) -> None:
        self._rules = IgnoreRules(self._root)
        self._store = FileStore()
        self._watcher = TreeWatcher(self._root)
        self._unlisted = deque([""])
        self._cut: set[str] = set()
        self._rule_files: set[str] = set()
        self._seconds = FIRST_SECONDS

    def _refresh(self) -> None:
        deadline = time.monotonic() + self._seconds
        changed = self._watcher.changed(deadline)
        if not self._rule_files.isdisjoint(changed):  # a rule may hold anywhere below; rare enough to begin again
            self._start_over()
            changed, deadline = [], time.monotonic() + self._seconds
        self._seconds = LATER_SECONDS
        for folder in changed:  # what isn't reached is reported again
            if folder in self._store and time.monotonic() < deadline:
                self._list(folder)
        while self._unlisted and len(self._store) < self._most and time.monotonic() < deadline:
            self._list(self._unlisted.popleft())

    def _list(self, folder: str) -> None:
        self._watch(folder)
        entries = list_folder(self._root, folder, self._rules)
        room = self._most - len(self._store) + len(self._store.children(folder))
        self._cut.discard(folder)
        if len(entries) > room:
            self._cut.add(folder)
        new, gone = self._store.put(folder, entries[:room])
        self._unlisted.extend(new)
        if gone:
            self._forget(set(gone))

    def _watch(self, folder: str) -> None:
        self._watcher.watch(folder)
        for path in rule_files(folder):
            self._watcher.watch(path)
            self._rule_files.add(path)

    def _forget(self, folders: set[str]) -> None:
        rules = {path for folder in folders for path in rule_files(folder)}
        self._rule_files -= rules
        self._watcher.forget(folders | rules)
        self._cut -= folders
        self._unlisted = deque(folder for folder in self._unlisted if folder not in folders)
