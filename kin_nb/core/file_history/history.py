"""FileHistory: what calls change in the workspace, and the way back (undo) and forth (redo).

`before_writes` for a call that names its files, `before_anything` for a command; then `changes`. They may overlap. All of
them block: they read files. Nothing here raises for what is on the disk, or for a store that cannot be used: that is reported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from kin_nb.core.file_history.blobs import BlobStore
from kin_nb.core.file_history.compare import Difference, differences, made, not_covered, permissions_changed, seen
from kin_nb.core.file_history.database import StoreError
from kin_nb.core.file_history.file_changes import Content, file_change, is_secret_file
from kin_nb.core.file_history.file_state import EMPTY, FOLDER, NOTHING, State, file_name, recorded_name
from kin_nb.core.file_history.notes import (
    Before,
    exclude_other_sessions,
    forget_before,
    keep_before,
    kept_before,
    milliseconds_now,
    note_permissions,
    note_written,
    paths_in_states,
    written_by_others,
)
from kin_nb.core.file_history.plan import inverted, states, unknown_file
from kin_nb.core.file_history.restore import Begin, Restored, Restorer
from kin_nb.core.file_history.scan import DEFAULT_LIMITS, FolderSnapshot, ScanLimits, Scanner
from kin_nb.core.paths import kin_home, real_path
from kin_nb.core.records import FileChange
from kin_nb.core.redaction import SECRET, WORKSPACE
from kin_nb.core.workspace_commit import git_head

_OFF = "no history of files is kept"
_PATCHED = 2_000_000
"""Bytes of contents that one call's patches are made from; further files are recorded by hash only."""
_MARKS = (SECRET, WORKSPACE, "~")
"""What redaction leaves. A name without them is whole; one with them may be, too."""


class FileHistory:
    """One for each session. `root`: the workspace. `store` None: changes to named files are recorded, nothing comes back.

    `apart`: files and folders that others write meanwhile (the session's notebook and logs): never looked at by a scan,
    never written. `session`: its id; "" is told nothing of other sessions, and tells them nothing. Usable from any thread,
    one at a time. `report` hears why the store cannot be used, each time that something could not be kept or found in it.
    """

    def __init__(
        self,
        root: Path,
        store: BlobStore | None,
        limits: ScanLimits = DEFAULT_LIMITS,
        apart: Collection[Path] = (),
        session: str = "",
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._report = report
        self._root, self._store, self._limits, self._session = real_path(root), store, limits, session
        self._apart = tuple(real_path(path) for path in (kin_home(), *apart))
        self._scanner = Scanner(self._root, store, limits, self._apart) if store is not None else None
        self._scanning = threading.RLock()

    def before_writes(self, paths: Iterable[Path]) -> Before:
        """`paths`: absolute, resolved. A folder stands for all that is in it."""
        named, begun = tuple(self._key(path) for path in paths), milliseconds_now()
        snapshot = self._seen(named)
        return Before(snapshot, named, begun=begun, unkept=snapshot.unkept)

    def before_anything(self) -> Before:
        """The whole workspace: for a command."""
        begun, snapshot = milliseconds_now(), self._scanned()
        return Before(snapshot, head=git_head(self._root), begun=begun, unkept=snapshot.unkept)

    def changes(self, before: Before) -> tuple[tuple[FileChange, ...], str]:
        """What changed since, by path; and what changed that undo does not bring back, in a sentence, or ""."""
        more = [f"no snapshot was kept: {before.unkept}"] if before.unkept else []
        if before.named is None:
            after = self._scanned()
            more += ["git's HEAD moved"] if git_head(self._root) != before.head else []
        else:
            after = self._seen(before.named)
        found = self._differences(before.snapshot, after)
        if before.named is None:
            found, theirs = self._exclude_other_sessions(found, before.begun)
            more += written_by_others(theirs)
        else:
            self._note((path, state) for path, _, state in found)
        limit = self._limits.file_bytes
        sides = (before.snapshot.contents, after.contents)
        large = {sha for contents in sides for sha, data in contents.items() if len(data) > limit}
        names = [recorded_name(path) for path, old, new in found if {old.sha, new.sha} & large]
        more += [f"{name} is over {limit / 1_000_000:g} MB" for name in names]
        more += permissions_changed(found, before.snapshot, after)
        sentence = not_covered(before.snapshot, after, self._root, limit, more)
        return self._recorded(found, before.snapshot, after), sentence

    def keep(self, session: str, call_id: str, before: Before, answered: Collection[str]) -> Before:
        """For a resume after a kill, until `forget`, or until the call is among those `answered`.

        Returns `before`, which says so when that could not be written: its call's changes are not known after a kill.
        """
        if self._store is not None:
            try:
                keep_before(self._store, session, call_id, before, answered)
            except StoreError as error:
                self._report(str(error))
                return replace(before, unkept=before.unkept or str(error))
        return before

    def kept(self, session: str) -> dict[str, Before]:
        """By the calls' ids. Raises StoreError."""
        return kept_before(self._store, session) if self._store is not None else {}

    def forget(self, session: str) -> None:
        if self._store is not None:
            with self._reported():  # they are looked at again, and are found to be answered
                forget_before(self._store, session)

    def real_names(self, changes: Sequence[FileChange], redact: Callable[[str], str]) -> list[FileChange]:
        """Recorded changes, which went through `redact`, as `undo` takes them: with their files' whole names.

        Redaction takes secrets and this machine's folders out of names, too. Such a name may be another file's real one, or
        stand for several files: undo acts on none that is not surely meant. What a change left at a path is in the store
        with the real path, so that is where it is found again; else the name becomes one that undo leaves alone.
        """
        return [
            change.model_copy(update={"path": self._real_name(change, redact)})
            if any(mark in change.path for mark in _MARKS)
            else change
            for change in changes
        ]

    def undo(self, changes: Sequence[FileChange], begin: Begin | None = None) -> Restored:
        """Put files back to the state before the first of `changes`, which are oldest first, with their whole names."""
        with self._scanning:
            restorer = Restorer(self._root, self._store, self._largest, self._apart, self._report)
            restored = restorer.run(changes, begin)
            self._note((file_name(change.path), states(change)[1]) for change in restored.files)
            return restored

    def kept_by_undo(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """What `undo` would leave as it is if it ran now, and why, by path as recorded."""
        with self._scanning:
            return Restorer(self._root, self._store, self._largest, self._apart, self._report).kept(changes)

    def made(self, changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
        """Those of `changes`, with their whole names, whose files are now as they left them."""
        return made(self._root, changes, self._largest)

    def redo(self, changes: Sequence[FileChange]) -> Restored:
        """The other way round: to the state after the last of them."""
        return self.undo(inverted(changes))

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _real_name(self, change: FileChange, redact: Callable[[str], str]) -> str:
        try:
            found = paths_in_states(self._store, *states(change)) if self._store is not None else []
        except StoreError:
            found = []
        names = [name for name in {recorded_name(path) for path in found} if redact(name) == change.path]
        return names[0] if len(names) == 1 else unknown_file(change.path)

    @property
    def _largest(self) -> int:
        return max(self._limits.named_bytes, self._limits.file_bytes)

    def _key(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else str(path)

    def _scanned(self) -> FolderSnapshot:
        if self._scanner is None:
            return FolderSnapshot(cut=_OFF)
        with self._scanning:
            return self._checked(self._scanner.scan())

    def _seen(self, named: Sequence[str]) -> FolderSnapshot:
        snapshot = seen(self._root, named, self._limits, self._scanned)
        small = [(sha, data) for sha, data in snapshot.contents.items() if len(data) <= self._limits.file_bytes]
        if self._store is not None and small:
            with snapshot.keeping():
                self._store.put_all(small)
        return self._checked(snapshot)

    def _checked(self, snapshot: FolderSnapshot) -> FolderSnapshot:
        """`snapshot`; contents that could not be kept are reported."""
        if snapshot.unkept:
            self._report(snapshot.unkept)
        return snapshot

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Around what can do without the store: a StoreError ends the block and is reported."""
        try:
            yield
        except StoreError as error:
            self._report(str(error))

    def _differences(self, before: FolderSnapshot, after: FolderSnapshot) -> list[Difference]:
        """All that is left to look at is looked at for as long as a scan may take, and what `after` holds is kept."""
        deadline = time.monotonic() + self._limits.seconds

        def see(path: str) -> State | None:
            in_time = self._scanner is not None and time.monotonic() < deadline
            try:
                return self._scanner.see(path) if self._scanner is not None and in_time else None
            except StoreError as error:
                self._report(str(error))
                return None

        with self._scanning:
            found = list(differences(before, after, see))
            if self._scanner is not None:
                with self._reported():
                    self._scanner.flush()
        return found

    def _note(self, written: Iterable[tuple[str, State]]) -> None:
        if self._store is not None and self._session:
            with self._reported():  # then other sessions may take it for their command's
                note_written(self._store, self._session, written)

    def _exclude_other_sessions(self, found: list[Difference], since: int) -> tuple[list[Difference], list[str]]:
        if self._store is not None and self._session:
            try:
                return exclude_other_sessions(self._store, self._session, since, found)
            except StoreError as error:
                self._report(str(error))
        return found, []

    def _recorded(
        self, found: Sequence[Difference], before: FolderSnapshot, after: FolderSnapshot
    ) -> tuple[FileChange, ...]:
        if self._store is not None and found:
            with self._reported():  # then private files come back as any others
                note_permissions(self._store, _permissions(found, before, after))
        left = _PATCHED
        changes = []
        secret = _secret_contents(found, before, after)
        for path, *pair in found:
            contents = [
                None if state.sha in secret else self._content(state.sha, before, after, left) for state in pair
            ]
            sides = [Content(state.mode, state.sha, data) for state, data in zip(pair, contents, strict=True)]
            left -= sum(len(side.data or b"") for side in sides)
            changes.append(file_change(recorded_name(path), *sides))
        return tuple(changes)

    def _content(self, sha: str | None, before: FolderSnapshot, after: FolderSnapshot, left: int) -> bytes | None:
        """For the patch. None when there is none, or there were so many already."""
        if sha is None or left <= 0:
            return None
        known = before.contents.get(sha, after.contents.get(sha))
        if known is None and self._store is not None:
            try:
                return self._store.get(sha)
            except StoreError as error:
                self._report(str(error))
        return known


def _secret_contents(found: Sequence[Difference], before: FolderSnapshot, after: FolderSnapshot) -> set[str]:
    """Of what changed, what a file with secrets held or holds, by sha256: copied or moved, it shows no patch either."""
    changed = {state.sha for _, *pair in found for state in pair} - {None, EMPTY}
    seen = chain(before.entries.items(), after.entries.items())
    return {state.sha or "" for path, state in seen if state.sha in changed and is_secret_file(path)}


def _permissions(
    found: Sequence[Difference], before: FolderSnapshot, after: FolderSnapshot
) -> Iterator[tuple[str, State, int]]:
    """Of both states of what changed, and of folders that are gone."""
    for path, *pair in found:
        for state, snapshot in zip(pair, (before, after), strict=True):
            if state == NOTHING or path in snapshot.permissions:
                yield path, state, snapshot.permissions.get(path, 0)
    for path in before.folders - after.folders:
        if path in before.permissions:
            yield path, FOLDER, before.permissions[path]
