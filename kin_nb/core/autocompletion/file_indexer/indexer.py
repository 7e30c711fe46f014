"""The workspace's files, known well enough to complete a path while someone types."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from kin_nb.core.autocompletion.file_indexer.store import FileStore
from kin_nb.core.autocompletion.file_indexer.watcher import TreeWatcher
from kin_nb.core.ignore.ignore_rules import Entry, IgnoreRules, list_folder, rule_files

FIRST_SECONDS = 2.0
LATER_SECONDS = 0.25
MOST_ENTRIES = 50_000


class FileIndexer:
    """An index that is made at the first question and brought up to date at each later one.

    Bounded: the first question takes about `FIRST_SECONDS` at most, a later one `LATER_SECONDS`, and goes on where the
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
