"""FileHistory: find the changes that calls make in the workspace, undo them and redo them.

Call `before_writes` for a call that names its files, or `before_anything` for a command, and `changes` after the call.
Calls may overlap. All methods block, because they read files. None raises for the contents of the disk or for a store
that cannot be used: these are reported.
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
"""Most bytes of contents for the patches of one call. The files after that are recorded by hash only."""
_MARKS = (SECRET, WORKSPACE, "~")
"""The replacements that redaction makes. A name without them was not redacted."""


class FileHistory:
    """The file history of one session. It may be used from any thread, one at a time.

    `root`: the workspace. `store` None: changes to named files are recorded, but cannot be undone. `apart`: files and
    folders that kin_nb itself writes (the session's notebook and logs), which are neither scanned nor restored. `session`:
    its id; with "" the session does not exchange notes of written files with other sessions. `report` is called with the
    reason each time that the store could not be used.
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
        """Return the state before a call that writes `paths` (absolute and resolved). A folder includes its contents."""
        named, begun = tuple(self._key(path) for path in paths), milliseconds_now()
        snapshot = self._seen(named)
        return Before(snapshot, named, begun=begun, unkept=snapshot.unkept)

    def before_anything(self) -> Before:
        """Return the state of the whole workspace before a call that may change anything, such as a command."""
        begun, snapshot = milliseconds_now(), self._scanned()
        return Before(snapshot, head=git_head(self._root), begun=begun, unkept=snapshot.unkept)

    def changes(self, before: Before) -> tuple[tuple[FileChange, ...], str]:
        """Return the changes since, by path, and a sentence about changes that undo does not restore, or ""."""
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
        """Store `before` for a resume after a kill, until `forget`, or until the call is in `answered`.

        Returns `before`, with `unkept` set if it could not be stored: the call's changes are unknown after a kill.
        """
        if self._store is not None:
            try:
                keep_before(self._store, session, call_id, before, answered)
            except StoreError as error:
                self._report(str(error))
                return replace(before, unkept=before.unkept or str(error))
        return before

    def kept(self, session: str) -> dict[str, Before]:
        """Return the stored states before calls, by the calls' ids. Raises StoreError."""
        return kept_before(self._store, session) if self._store is not None else {}

    def forget(self, session: str) -> None:
        if self._store is not None:
            with self._reported():  # a state that remains does no harm: a resume finds that its call has a result
                forget_before(self._store, session)

    def real_names(self, changes: Sequence[FileChange], redact: Callable[[str], str]) -> list[FileChange]:
        """Return recorded changes, which `redact` was applied to, with the real file names that `undo` needs.

        Redaction also replaces secrets and this machine's folders in names. A redacted name may be the real name of another
        file, or the name of several files, and undo must not change a wrong file. The store has the real paths with the
        states before and after a change, so the real name is found by these; otherwise undo leaves the file alone.
        """
        return [
            change.model_copy(update={"path": self._real_name(change, redact)})
            if any(mark in change.path for mark in _MARKS)
            else change
            for change in changes
        ]

    def undo(self, changes: Sequence[FileChange], begin: Begin | None = None) -> Restored:
        """Restore files to the state before the first of `changes`, which are oldest first, with real names."""
        with self._scanning:
            restorer = Restorer(self._root, self._store, self._largest, self._apart, self._report)
            restored = restorer.run(changes, begin)
            self._note((file_name(change.path), states(change)[1]) for change in restored.files)
            return restored

    def kept_by_undo(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """Return the files that `undo` would not restore now, by recorded name, with the reason."""
        with self._scanning:
            return Restorer(self._root, self._store, self._largest, self._apart, self._report).kept(changes)

    def made(self, changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
        """Return the `changes`, which have real names, whose files have not changed since."""
        return made(self._root, changes, self._largest)

    def redo(self, changes: Sequence[FileChange]) -> Restored:
        """Restore files to the state after the last of `changes`, which were undone."""
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
        """Report contents that could not be stored, and return the snapshot."""
        if snapshot.unkept:
            self._report(snapshot.unkept)
        return snapshot

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report a StoreError in the block, which is then left early. For work that is not essential."""
        try:
            yield
        except StoreError as error:
            self._report(str(error))

    def _differences(self, before: FolderSnapshot, after: FolderSnapshot) -> list[Difference]:
        """Compare, and store the contents in `after`. Paths that were not scanned are read, within the time of a scan."""
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
            with self._reported():  # if it fails, another session may count the change as one of its command
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
            with self._reported():  # if it fails, private files are restored with usual permissions
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
        """Return a content for a patch; None if it is unknown, or if the limit `left` is used up."""
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
    """Return the hashes of changed contents that a file with secrets has or had.

    They get no patch, also in other files to which they were copied or moved.
    """
    changed = {state.sha for _, *pair in found for state in pair} - {None, EMPTY}
    seen = chain(before.entries.items(), after.entries.items())
    return {state.sha or "" for path, state in seen if state.sha in changed and is_secret_file(path)}


def _permissions(
    found: Sequence[Difference], before: FolderSnapshot, after: FolderSnapshot
) -> Iterator[tuple[str, State, int]]:
    """Yield the permissions of both states of each changed path, and of deleted folders."""
    for path, *pair in found:
        for state, snapshot in zip(pair, (before, after), strict=True):
            if state == NOTHING or path in snapshot.permissions:
                yield path, state, snapshot.permissions.get(path, 0)
    for path in before.folders - after.folders:
        if path in before.permissions:
            yield path, FOLDER, before.permissions[path]
