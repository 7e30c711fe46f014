"""Scanner: take a snapshot of a workspace and store its contents, within limits on entries, bytes and seconds.

Not covered are ignored paths, files over the limit, special files, and what cannot be read; `FolderSnapshot.skipped` names
them. Links are not followed, and every .git is ignored.

StatCache knows the content of a file while its stat is unchanged, so an unchanged file costs only one lstat. A file that
changed just before it was read may change again within the same clock tick, with an equal stat. So it is not cached; git
does the same.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from kin_nb.core.file_history.blobs import BlobStore, insert
from kin_nb.core.file_history.database import StoreError
from kin_nb.core.file_history.file_state import (
    FOLDER,
    NOTHING,
    ObservedFile,
    State,
    Unknown,
    file_mode,
    mark,
    observe_without_links,
)
from kin_nb.core.ignore_rules import IgnoreRules

_TICK = 2_000_000_000
"""Nanoseconds: the coarsest time stamps of file systems."""
_BATCH_FILES, _BATCH_BYTES = 2_000, 8_000_000

Mark: TypeAlias = tuple[int, int, int, int, int]
_Row: TypeAlias = tuple[Mark, str]


class StatCache:
    """The last known stat and content hash of each file of a workspace. For one thread at a time."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._rows: dict[str, _Row] = {}
        self._generation = -1
        self._contents: list[tuple[str, bytes]] = []
        self._new: dict[str, _Row] = {}
        self._bytes = 0

    def refresh(self) -> None:
        """Read the cache again if contents were deleted from the store. Raises StoreError."""
        self._store.prune_when_due()
        generation = self._store.generation()
        if generation == self._generation:
            return
        with self._store.database.reading() as connection:
            rows = connection.execute("SELECT * FROM files") if connection else ()
            self._rows = {os.fsdecode(path): (tuple(known), sha) for path, *known, sha in rows}
        self._generation = generation

    def sha(self, path: str, status: os.stat_result) -> str | None:
        row = self._rows.get(path)
        return row[1] if row is not None and row[0] == mark(status) else None

    def keep(self, path: str, sha: str, content: bytes, status: os.stat_result, *, settled: bool, read_at: int) -> None:
        """Add a content. `read_at`: time.time_ns() before it was read. Raises StoreError."""
        self._contents.append((sha, content))
        self._bytes += len(content)
        if settled and not _is_fresh(status, read_at):
            self._new[path] = mark(status), sha
        if len(self._contents) >= _BATCH_FILES or self._bytes >= _BATCH_BYTES:
            self.flush()

    def forget(self, gone: Iterable[str]) -> None:
        """Remove files that do not exist any more. Raises StoreError."""
        paths = [path for path in gone if self._rows.pop(path, None)]
        if paths:
            with self._store.database.writing() as connection:
                _make_young(connection, paths)
                connection.executemany("DELETE FROM files WHERE path = ?", [(os.fsencode(path),) for path in paths])

    def flush(self) -> None:
        """Write to the store. Raises StoreError; contents that could not be written are dropped."""
        contents, new = self._contents, self._new
        self._contents, self._new, self._bytes = [], {}, 0
        if not contents:
            return
        with self._store.database.writing() as connection:
            insert(connection, contents)
            _make_young(connection, [path for path in new if path in self._rows])
            connection.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(os.fsencode(path), *known, sha) for path, (known, sha) in new.items()],
            )
        self._rows |= new

    def paths(self) -> Iterable[str]:
        return self._rows.keys()


def _make_young(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Mark the previous contents of these files as just used, because the next undo is most likely to need them."""
    now = int(time.time())
    connection.executemany(
        "UPDATE blobs SET used = ? WHERE sha = (SELECT sha FROM files WHERE path = ?)",
        [(now, os.fsencode(path)) for path in paths],
    )


def _is_fresh(status: os.stat_result, read_at: int) -> bool:
    """Whether the file changed within one tick before it was read, or has a later time stamp."""
    return read_at - status.st_ctime_ns < _TICK or 0 <= read_at - status.st_mtime_ns < _TICK


@dataclass(frozen=True)
class ScanLimits:
    """Limits of one scan. `total_bytes`: of all covered files together.

    A file over `file_bytes` is not covered. If a tool names it, its changes are recorded up to `named_bytes`.
    """

    entries: int = 20_000
    seconds: float = 2.0
    file_bytes: int = 2_000_000
    named_bytes: int = 10_000_000
    total_bytes: int = 256_000_000


DEFAULT_LIMITS = ScanLimits()


@dataclass(frozen=True)
class Skipped:
    """A path that is not covered. `mark` differs after a change; None if changes are not detected."""

    why: Unknown
    size: int
    mark: tuple[int, ...] | None


@dataclass
class FolderSnapshot:
    """The state of a workspace or of some files. Paths are relative to the root with `/`, or absolute outside of it.

    `entries`: files, links and empty folders. `cut`: why the workspace was not scanned completely, else "". `unkept`: why
    some contents could not be stored, else "".
    """

    entries: dict[str, State] = field(default_factory=dict)
    permissions: dict[str, int] = field(default_factory=dict)
    """Permissions of files and of all folders."""
    folders: set[str] = field(default_factory=set)
    """Folders whose contents were read."""
    skipped: dict[str, Skipped] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    """Contents, by sha256, of files that a tool names, so that their patch can be shown without a store."""
    cut: str = ""
    unkept: str = ""

    def why_skipped(self, path: str) -> Unknown | None:
        """Return why the path, or a folder above it, was skipped; None if neither was."""
        while path:
            if path in self.skipped:
                return self.skipped[path].why
            path = path.rpartition("/")[0]
        return None

    def below(self, folder: str) -> FolderSnapshot:
        """Return a snapshot of only this folder and its contents."""
        inside = f"{folder}/"
        return FolderSnapshot(
            entries={path: state for path, state in self.entries.items() if f"{path}/".startswith(inside)},
            permissions={path: bits for path, bits in self.permissions.items() if f"{path}/".startswith(inside)},
            folders={path for path in self.folders if f"{path}/".startswith(inside)},
            skipped={path: what for path, what in self.skipped.items() if f"{path}/".startswith(inside)},
            cut=self.cut,
            unkept=self.unkept,
        )

    def add(self, other: FolderSnapshot) -> None:
        self.entries |= other.entries
        self.permissions |= other.permissions
        self.folders |= other.folders
        self.skipped |= other.skipped
        self.contents |= other.contents
        self.cut = self.cut or other.cut
        self.unkept = self.unkept or other.unkept

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Write contents to the store in the block. A StoreError ends the block, and `unkept` gets its text."""
        try:
            yield
        except StoreError as error:
            self.unkept = self.unkept or str(error)


class CutError(Exception):
    """The scan reached a limit. The text says which."""


class Scanner:
    """Scans a workspace. `apart`: files and folders to omit (the session's log and notebook, kin_nb's settings)."""

    def __init__(self, root: Path, store: BlobStore, limits: ScanLimits, apart: Collection[Path]) -> None:
        self._root, self._limits = root, limits
        self._apart = {path.relative_to(root).as_posix() for path in apart if path.is_relative_to(root)}
        self._cache = StatCache(store)

    def scan(self) -> FolderSnapshot:
        """Scan the workspace. Raises nothing: a reached limit is in `cut`. A store that fails does not end the scan."""
        snapshot = FolderSnapshot()
        with snapshot.keeping():
            self._cache.refresh()
        try:
            _Walk(self._root, self._limits, self._apart, self._cache, snapshot).run()
        except CutError as error:
            snapshot.cut = str(error)
        with snapshot.keeping():
            if not snapshot.cut:
                self._cache.forget([path for path in self._cache.paths() if path not in snapshot.entries])
        with snapshot.keeping():
            self._cache.flush()
        return snapshot

    def see(self, path: str) -> State | None:
        """Read the state of one path. Its content is stored when `flush` is called. Raises StoreError."""
        place = str(self._root / path)
        try:
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        except (OSError, ValueError):
            return None
        sha = self._cache.sha(path, status) if stat.S_ISREG(status.st_mode) else None
        if sha is not None:
            return State(file_mode(status), sha)
        read_at = time.time_ns()
        found = observe_without_links(place, self._limits.file_bytes, status)
        keep(self._cache, path, found, read_at)
        return found.state

    def flush(self) -> None:
        """Write to the store. Raises StoreError."""
        self._cache.flush()


class _Walk:
    def __init__(
        self, root: Path, limits: ScanLimits, apart: Collection[str], cache: StatCache, snapshot: FolderSnapshot
    ) -> None:
        self._root, self._limits, self._apart, self._cache, self._snapshot = root, limits, apart, cache, snapshot
        self._rules = IgnoreRules(root)
        self._deadline = time.monotonic() + limits.seconds
        self._entries = self._bytes = 0

    def run(self) -> None:
        """Fill the snapshot. A missing root counts as empty. Raises CutError."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            covered = 0
            for item in self._items(folder):
                self._check_time()
                path = f"{folder}/{item.name}" if folder else item.name
                status = _status(item)
                if path in self._apart or status is None:
                    continue
                is_folder = stat.S_ISDIR(status.st_mode)
                if self._rules.is_ignored(path, is_dir=is_folder):
                    self._skip(path, Unknown.IGNORED, status)
                elif is_folder:
                    self._count()
                    self._snapshot.permissions[path] = stat.S_IMODE(status.st_mode)
                    waiting.append(path)
                    covered += 1
                else:
                    covered += self._file(path, status)
            if folder and not covered and folder in self._snapshot.folders:
                self._snapshot.entries[folder] = FOLDER

    def _items(self, folder: str) -> Iterator[os.DirEntry[str]]:
        place = f"{self._root}/{folder}" if folder else str(self._root)
        try:
            with os.scandir(place) as scan:
                self._snapshot.folders.add(folder)
                yield from scan
        except (FileNotFoundError, NotADirectoryError):
            self._snapshot.folders.discard(folder)  # deleted since its name was read
        except OSError as error:
            if not folder:
                raise CutError("the workspace cannot be read") from error
            self._snapshot.folders.discard(folder)
            self._snapshot.skipped[folder] = Skipped(Unknown.UNREADABLE, 0, None)

    def _file(self, path: str, status: os.stat_result) -> bool:
        """Add a file or link. Returns whether it is covered."""
        sha = self._cache.sha(path, status) if stat.S_ISREG(status.st_mode) else None
        if sha is not None:
            self._count(status.st_size)
            self._cover(path, State(file_mode(status), sha), status)
            return True
        read_at = time.time_ns()
        found = observe_without_links(f"{self._root}/{path}", self._limits.file_bytes, status)
        if found.state is None:
            self._skip(path, found.unknown or Unknown.UNREADABLE, found.status or status)
        elif found.content is not None and found.status is not None:
            self._count(len(found.content))
            self._cover(path, found.state, found.status)
            with self._snapshot.keeping():
                keep(self._cache, path, found, read_at)
            return True
        return False

    def _cover(self, path: str, state: State, status: os.stat_result) -> None:
        self._snapshot.entries[path] = state
        self._snapshot.permissions[path] = stat.S_IMODE(status.st_mode)

    def _skip(self, path: str, why: Unknown, status: os.stat_result) -> None:
        self._snapshot.skipped[path] = Skipped(why, status.st_size, skip_mark(status))

    def _count(self, size: int = 0) -> None:
        self._entries += 1
        self._bytes += size
        if self._entries > self._limits.entries:
            raise CutError(f"the workspace has more than {self._limits.entries:,} files and folders")
        if self._bytes > self._limits.total_bytes:
            raise CutError(f"the workspace has more than {self._limits.total_bytes // 1_000_000} MB of files")

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise CutError(f"looking through the workspace took longer than {self._limits.seconds:g} s")


def keep(cache: StatCache, path: str, found: ObservedFile, read_at: int) -> None:
    """Add a file that was read to the cache. Raises StoreError."""
    if found.content is None or found.status is None or found.state is None or found.state.sha is None:
        return
    settled = found.settled and stat.S_ISREG(found.status.st_mode)
    cache.keep(path, found.state.sha, found.content, found.status, settled=settled, read_at=read_at)


def skip_mark(status: os.stat_result) -> tuple[int, ...]:
    """Return the mark of a skipped path. For a folder it differs when entries are added or removed.

    For a special file it differs only when the file is replaced.
    """
    if stat.S_ISDIR(status.st_mode):
        return status.st_ino, status.st_mtime_ns
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode
    return status.st_ino, status.st_mode


def _status(item: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return item.stat(follow_symlinks=False)
    except OSError:
        return None
