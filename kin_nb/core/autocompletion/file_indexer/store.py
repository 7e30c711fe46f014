"""What is known of the workspace's files: entries by folder. A pure value; the disk is indexer.py's business."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.ignore.ignore_rules import Entry


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
