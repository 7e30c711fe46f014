"""Restore files: remove files before folders, create folders before files, and write each file atomically.

Files that the user has changed since are left as they are, and are listed. Replaced contents are stored first, so that an
undo can be undone; `begin` is called with all planned changes before the first file changes. Files are reached from their
root folder without following links (`Tree`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from kin_nb.core.file_history.blobs import BlobStore
from kin_nb.core.file_history.database import StoreError
from kin_nb.core.file_history.file_changes import Content, content_before, file_change
from kin_nb.core.file_history.file_state import (
    EMPTY,
    EXECUTABLE,
    FOLDER,
    LINK,
    NOTHING,
    ObservedFile,
    State,
    file_name,
    observe,
    recorded_name,
)
from kin_nb.core.file_history.notes import note_permissions, permissions_of
from kin_nb.core.file_history.plan import Wanted, same_on_some_disks, wanted, why_forbidden, why_kept
from kin_nb.core.records import FileChange
from kin_nb.core.safe_fs import FOLDER_FLAGS, open_folder, replace_file, temporary_name
from kin_nb.core.sensitive_names import sensitive_reason


class Tree:
    """The files below one folder. A path is given as its parts. All methods raise OSError."""

    def __init__(self, root: str) -> None:
        self._descriptor = os.open(root, FOLDER_FLAGS)

    def close(self) -> None:
        os.close(self._descriptor)

    def observe(self, parts: Sequence[str], limit: int) -> ObservedFile:
        try:
            with self._above(parts) as folder:
                return observe(parts[-1], limit, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return ObservedFile(NOTHING)

    def is_spelled(self, parts: Sequence[str]) -> bool:
        """Whether a file with exactly this name exists: a file system may treat similar names as equal."""
        for depth, name in enumerate(parts):
            try:
                with self._above(parts[: depth + 1]) as folder:
                    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                return False
            try:
                if name not in os.listdir(listed):  # noqa: PTH208  (by descriptor)
                    return False
            finally:
                os.close(listed)
        return True

    def remove(self, parts: Sequence[str]) -> None:
        with self._above(parts) as folder:
            os.unlink(parts[-1], dir_fd=folder)

    def remove_folder(self, parts: Sequence[str]) -> None:
        """Remove a folder, if it is empty."""
        with self._above(parts) as folder:
            os.rmdir(parts[-1], dir_fd=folder)

    def make_folder(self, parts: Sequence[str], permissions: int | None) -> None:
        """Create a folder in an existing folder. Does nothing if it exists already."""
        with self._above(parts) as folder, suppress(FileExistsError):
            os.mkdir(parts[-1], 0o777 if permissions is None else permissions | 0o700, dir_fd=folder)

    def link(self, parts: Sequence[str], target: bytes) -> None:
        """Create the link, or replace a file by it atomically."""
        with self._above(parts) as folder, temporary_name(folder) as name:
            os.symlink(target, os.fsencode(name), dir_fd=folder)
            os.replace(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)

    def write(self, parts: Sequence[str], content: bytes, permissions: int | None, *, executable: bool) -> None:
        """Create or replace the file atomically. `permissions` None: the default for new files."""
        default = 0o777 if executable else 0o666
        with self._above(parts) as folder:
            replace_file(folder, parts[-1], content, permissions, default)

    @contextmanager
    def _above(self, parts: Sequence[str]) -> Iterator[int]:
        """Open the folder that contains the last part, and yield its descriptor."""
        descriptor = open_folder(self._descriptor, parts[:-1])
        try:
            yield descriptor
        finally:
            os.close(descriptor)


NOT_KEPT = "its content is not kept any more"

Begin = Callable[[tuple[FileChange, ...]], None]
"""Called with all planned changes, with real names, before the first one, so that a kill meanwhile loses no record."""


@dataclass(frozen=True)
class Restored:
    """The result of an undo. `files`: the changes that it made; `kept`: paths that it left alone, and why. Recorded names."""

    files: tuple[FileChange, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()


@dataclass
class _Job:
    item: Wanted
    now: ObservedFile
    content: bytes | None = None
    """The content to write; None for a folder and for a deletion."""

    @property
    def parts(self) -> list[str]:
        return self.item.path.lstrip("/").split("/")


@dataclass
class _Part:
    """The work below one root folder."""

    tree: Tree
    items: Sequence[Wanted]
    jobs: Sequence[_Job]


@dataclass
class Restorer:
    """Restores the files of one undo. `apart`: never written. `report` is called with the reason if the store fails."""

    root: Path
    store: BlobStore | None
    limit: int
    apart: Collection[Path]
    report: Callable[[str], None] = lambda _: None
    _kept: dict[str, str] = field(default_factory=dict)
    _unshown: set[str] = field(default_factory=set)
    """The sha256 of contents that have no patch in the records: secrets, and large contents."""
    _done: list[_Job] = field(default_factory=list)
    _changes_of: dict[str, list[FileChange]] = field(default_factory=dict)

    def kept(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """Return the files that `run` would not restore now, by recorded name, with the reason. Changes no file."""
        items = wanted(changes)
        for part in self._planned(changes, items):
            part.tree.close()
        self._keep_broken(items)
        return {recorded_name(path).removesuffix("/"): why for path, why in self._kept.items()}

    def run(self, changes: Sequence[FileChange], begin: Begin | None = None) -> Restored:
        items = wanted(changes)
        unshown = {sha for change in changes if change.patch is None for sha in (change.before, change.after)}
        self._unshown = {sha for sha in unshown if sha and sha != EMPTY}
        parts = self._planned(changes, items)
        try:
            jobs = [job for part in parts for job in part.jobs]
            self._remember(jobs)
            if begin is not None and jobs:
                begin(self._changes(jobs))
            for part in parts:
                self._carry_out(part)
        finally:
            for part in parts:
                part.tree.close()
        self._keep_broken(items)
        return Restored(
            self._changes(self._done),
            tuple((recorded_name(path).removesuffix("/"), why) for path, why in sorted(self._kept.items())),
        )

    def _keep_broken(self, items: Sequence[Wanted]) -> None:
        for item in items:
            if item.broken and item.path not in self._kept:
                self._kept[item.path] = "you changed it between two of these calls: it is what it was then"

    def _planned(self, changes: Sequence[FileChange], items: Sequence[Wanted]) -> list[_Part]:
        """Plan the work, and fill `_kept` with the files that are left alone. The caller must close the trees."""
        for change in changes:
            self._changes_of.setdefault(file_name(change.path), []).append(change)
        parts: list[_Part] = []
        try:
            for root, outside in ((str(self.root), False), ("/", True)):
                self._plan(root, [item for item in items if item.path.startswith("/") is outside], parts)
        except BaseException:
            for part in parts:
                part.tree.close()
            raise
        return parts

    def _plan(self, root: str, items: Sequence[Wanted], parts: list[_Part]) -> None:
        if not items:
            return
        try:
            tree = self._tree(root, items)
        except OSError as error:
            self._kept |= {item.path: f"the workspace cannot be entered: {_text(error)}" for item in items}
            return
        parts.append(part := _Part(tree, items, ()))
        one_name = same_on_some_disks(items)
        part.jobs = [job for item in items if (job := self._job(tree, item, exactly=item.path in one_name))]

    def _carry_out(self, part: _Part) -> None:
        self._remove_files(part.tree, part.jobs)
        self._remove_folders(part.tree, part.jobs, part.items)
        self._make(part.tree, part.jobs)

    def _tree(self, root: str, items: Sequence[Wanted]) -> Tree:
        try:
            return Tree(root)
        except FileNotFoundError:
            if all(item.target == NOTHING for item in items):
                raise
            Path(root).mkdir()  # a command removed the workspace itself
            return Tree(root)

    def _job(self, tree: Tree, item: Wanted, *, exactly: bool) -> _Job | None:
        """Return the job for a path, after storing its current content; None if it is left alone or already restored."""
        with self._kept_on_error(item):
            why = why_forbidden(item.path) or self._why_not_ours(item)
            if why:
                raise _KeptError(why)
            parts = item.path.lstrip("/").split("/")
            now = ObservedFile(NOTHING) if exactly and not tree.is_spelled(parts) else tree.observe(parts, self.limit)
            why_now = why_kept(item, now)
            if why_now:
                raise _KeptError(why_now)
            if why_now is None:
                if now.content is not None:
                    self._store().put(now.content)
                return _Job(item, now, self._content(item, now))
        return None

    def _why_not_ours(self, item: Wanted) -> str:
        path = self.root / item.path
        if any(path.is_relative_to(apart) for apart in self.apart):
            return "kin_nb itself writes there"
        if not item.path.startswith("/"):
            return ""
        if self.store is not None:
            known = [permissions_of(self.store, item.path, state) for state in (item.expected, item.target)]
            if None not in known:
                return ""
        return "it is outside of the workspace, and no tool changed it from here"

    def _content(self, item: Wanted, now: ObservedFile) -> bytes | None:
        sha = item.target.sha
        if sha is None:
            return None
        content = self._store().get(sha)
        if content is None and item.target.mode != LINK and not sensitive_reason(PurePath(item.path), "create"):
            # records may come from others: their patches may set neither links nor files that run later
            content = content_before(self._changes_of[item.path], sha, now.content or b"", self._store().get)
        if content is None:
            raise _KeptError(NOT_KEPT)
        return content

    def _store(self) -> BlobStore:
        if self.store is None:
            raise StoreError(NOT_KEPT)
        return self.store

    def _remove_files(self, tree: Tree, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            if job.content is None and job.now.state not in {NOTHING, FOLDER}:
                with self._kept_on_error(job.item):
                    tree.remove(job.parts)
                    if job.item.target == NOTHING:
                        self._done.append(job)

    def _remove_folders(self, tree: Tree, jobs: Sequence[_Job], items: Sequence[Wanted]) -> None:
        """Remove the folders that calls created, and folders that are empty after the removal of files."""
        needed = _with_parents(item.path for item in items if item.target != NOTHING)
        for job in sorted(jobs, key=lambda job: len(job.parts), reverse=True):
            path = job.item.path
            if (
                job.now.state == FOLDER
                and job.item.target != FOLDER
                and (job.content is not None or path not in needed)
            ):
                with self._kept_on_error(job.item), suppress(FileNotFoundError):  # it was removed with its last file
                    tree.remove_folder(job.parts)
            if job.item.target == NOTHING and path not in self._kept:
                if job.now.state == FOLDER:
                    self._done.append(job)
                if not path.startswith("/"):
                    self._remove_emptied(tree, job.parts[:-1], needed)

    def _remove_emptied(self, tree: Tree, parts: Sequence[str], needed: Collection[str]) -> None:
        while parts and "/".join(parts) not in needed:
            try:
                tree.remove_folder(parts)
            except OSError:  # it is not empty
                return
            parts = parts[:-1]

    def _make(self, tree: Tree, jobs: Sequence[_Job]) -> None:
        for job in sorted(jobs, key=lambda job: len(job.parts)):
            item = job.item
            if item.target == NOTHING or item.path in self._kept:
                continue
            with self._kept_on_error(item):
                self._make_folders(tree, item.path, job.parts[: None if item.target == FOLDER else -1])
                if item.target.mode == LINK and job.content is not None:
                    tree.link(job.parts, job.content)
                elif job.content is not None:
                    permissions = self._permissions(item.path, item.target, job.now)
                    executable = item.target.mode == EXECUTABLE
                    tree.write(job.parts, job.content, permissions, executable=executable)
                self._done.append(job)

    def _make_folders(self, tree: Tree, path: str, parts: Sequence[str]) -> None:
        start = "/" if path.startswith("/") else ""
        for depth in range(1, len(parts) + 1):
            name = start + "/".join(parts[:depth])
            if tree.observe(parts[:depth], 0).state != FOLDER:
                tree.make_folder(parts[:depth], permissions_of(self._store(), name, FOLDER) or None)

    def _permissions(self, path: str, target: State, now: ObservedFile) -> int | None:
        """Return the file's earlier permissions; else those of the current file, with the recorded executable bit."""
        known = permissions_of(self._store(), path, target)
        if known is None and now.status is not None and now.state not in {NOTHING, FOLDER}:
            known = now.status.st_mode & 0o777 if now.state and now.state.mode != LINK else None
        if known is None:
            return None
        return known | (known & 0o444) >> 2 if target.mode == EXECUTABLE else known & ~0o111

    def _remember(self, jobs: Iterable[_Job]) -> None:
        """Store the permissions of replaced files. For files outside, this also shows that we changed them."""
        rows = []
        for job in jobs:
            mode = job.now.status.st_mode & 0o7777 if job.now.status else 0
            rows += [(job.item.path, job.now.state or NOTHING, mode)]
        if self.store is None:
            return
        try:
            note_permissions(self.store, rows)
        except StoreError as error:
            self.report(str(error))

    def _changes(self, jobs: Iterable[_Job]) -> tuple[FileChange, ...]:
        return tuple(self._change(job) for job in sorted(jobs, key=lambda job: job.item.path))

    def _change(self, job: _Job) -> FileChange:
        before = job.now.state or NOTHING
        if before == FOLDER and job.item.expected != FOLDER:
            before = NOTHING  # it was not empty: its files have their own changes
        sides = ((before, job.now.content), (job.item.target, job.content))
        return file_change(
            recorded_name(job.item.path),
            *(Content(state.mode, state.sha, None if state.sha in self._unshown else data) for state, data in sides),
        )

    @contextmanager
    def _kept_on_error(self, item: Wanted) -> Iterator[None]:
        try:
            yield
        except (_KeptError, StoreError) as error:
            self._kept[item.path] = str(error)
        except NotADirectoryError:
            self._kept[item.path] = "a folder above it is a file or a link now"
        except (OSError, ValueError) as error:
            in_use = isinstance(error, OSError) and error.errno in {errno.ENOTEMPTY, errno.EEXIST}
            self._kept[item.path] = "other files are in it now" if in_use else _text(error)


class _KeptError(Exception):
    """The file is left as it is. The text says why."""


def _with_parents(paths: Iterator[str]) -> set[str]:
    found = set()
    for path in paths:
        above = path
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


def _text(error: Exception) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
