"""FileTracker: record the files that a call changes in the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from kin_nb.core.file_history import Before, Begin, FileHistory, Restored, workspace_store
from kin_nb.core.file_history.file_state import file_name
from kin_nb.core.records import FileChange
from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.session.journal import SessionStorage

Changed = tuple[tuple[FileChange, ...], str]
"""The changed files of a call, and a note about changes that are not known."""


class FileTracker:
    """Tracks the workspace at `root` (resolved) for the calls of `session`, and reports failures to `storage`.

    For a call that names the files it writes, only those are scanned; for one that may touch anything, all files.
    """

    def __init__(self, root: Path, session: str, storage: SessionStorage) -> None:
        self._root, self._session, self._storage = root, session, storage
        self._answered: list[str] = []
        self._history = self._history_without(())

    def leave_out(self, paths: Collection[Path]) -> None:
        """Exclude files and folders that other programs write too, such as an open notebook: undo does not touch them."""
        self._history.close()
        self._history = self._history_without(paths)

    def _history_without(self, apart: Collection[Path]) -> FileHistory:
        store, report = workspace_store(self._root), self._storage.report_history_failure
        return FileHistory(self._root, store, apart=apart, session=self._session, report=report)

    async def before(self, request: ToolRequest) -> Before | None:
        """Take a snapshot before the call runs; it is kept until the call is `answered`. None for a call that changes no files."""
        if request.may_change_anything:
            look: Callable[[], Before] = self._history.before_anything
        elif request.write_paths:
            look = partial(self._history.before_writes, request.write_paths)
        else:
            return None
        answered, self._answered = self._answered, []

        def kept() -> Before:
            before = self._history.keep(self._session, request.tool_call_id, look(), answered)
            self._storage.unkept = before.unkept
            return before

        return await asyncio.to_thread(kept)

    async def since(self, before: Before | None) -> Changed:
        if before is None:
            return (), ""
        return await asyncio.to_thread(self._history.changes, before)

    def answered(self, call_id: str) -> None:
        """Mark the call's changes as logged, so that a resume need not scan for them."""
        self._answered.append(call_id)

    def interrupted(self, open_ids: Collection[str]) -> dict[str, Changed]:
        """The changes since these interrupted calls started, by id.

        Calls that never started, and calls that name the files they write but changed none, are left out. Blocks. Raises
        StoreError if the changes cannot be determined.
        """
        kept = self._history.kept(self._session).items()
        found = [(id_, before, self._history.changes(before)) for id_, before in kept if id_ in open_ids]
        return {id_: changed for id_, before, changed in found if before.named is None or any(changed)}

    def forget(self) -> None:
        """Discard all snapshots: every call has its answer in the log."""
        self._answered.clear()
        self._history.forget(self._session)

    async def undo(self, changes: Sequence[FileChange], begin: Begin | None = None) -> Restored:
        """Restore files to before the first of `changes` (oldest first). `begin` is called on another thread."""
        return await asyncio.to_thread(self._history.undo, changes, begin)

    def kept_by_undo(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """The paths, as recorded, that `undo` would not restore now, with the reasons. Blocks."""
        return self._history.kept_by_undo(changes)

    def paths(self, changes: Iterable[FileChange]) -> list[Path]:
        """The changed files of `changes`, which have real names, as absolute paths."""
        return [self._root / file_name(change.path) for change in changes]

    def made(self, changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
        """Those of `changes` whose files have not changed since. Blocks."""
        return self._history.made(changes)

    def real_names(self, changes: Sequence[FileChange], redact: Callable[[str], str]) -> list[FileChange]:
        """Recorded changes, whose paths went through `redact`, with the real paths that `undo` needs."""
        return self._history.real_names(changes, redact)

    def close(self) -> None:
        """Release the store. No call may run any more."""
        self._history.close()
