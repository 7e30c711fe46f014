"""WatchedFiles: what a call changes in the workspace, whatever it is that the call may touch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from kin_nb.core.file_history import Before, Begin, FileHistory, Restored, workspace_store
from kin_nb.core.records import FileChange
from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.session.journal import SessionStorage

Changed = tuple[tuple[FileChange, ...], str]
"""What a call changed, and what it may have changed that is not known."""


class WatchedFiles:
    """The files of the workspace at `root` (resolved), for the calls of the session `session`; `storage` hears of failures.

    A call that names what it writes costs a look at those files; one that may touch anything, a look at all of them.
    """

    def __init__(self, root: Path, session: str, storage: SessionStorage) -> None:
        self._root, self._session, self._storage = root, session, storage
        self._answered: list[str] = []
        self._history = self._history_without(())

    def leave_out(self, paths: Collection[Path]) -> None:
        """Leave out files and folders that other programs write too, such as an open notebook: undo does not touch them."""
        self._history.close()
        self._history = self._history_without(paths)

    def _history_without(self, apart: Collection[Path]) -> FileHistory:
        store, report = workspace_store(self._root), self._storage.report_history_failure
        return FileHistory(self._root, store, apart=apart, session=self._session, report=report)

    async def before(self, request: ToolRequest) -> Before | None:
        """Taken before the call runs, and kept until it is `answered`; None for a call that changes nothing here."""
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
        """The log has what the call changed: a resume need not look."""
        self._answered.append(call_id)

    def cut_off(self, open_ids: Collection[str]) -> dict[str, Changed]:
        """What changed since these calls began, by id. Without those that never began, and those that say what they
        write and wrote nothing. Blocks; raises StoreError when that cannot be known.
        """
        kept = self._history.kept(self._session).items()
        found = [(id_, before, self._history.changes(before)) for id_, before in kept if id_ in open_ids]
        return {id_: changed for id_, before, changed in found if before.named is None or any(changed)}

    def forget(self) -> None:
        """Every call has its answer in the log."""
        self._answered.clear()
        self._history.forget(self._session)

    async def undo(self, changes: Sequence[FileChange], begin: Begin | None = None) -> Restored:
        """Files as they were before the first of `changes`, which are oldest first. `begin` is called on another thread."""
        return await asyncio.to_thread(self._history.undo, changes, begin)

    def kept_by_undo(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """What `undo` would leave as it is if it ran now, and why, by path as recorded. Blocks."""
        return self._history.kept_by_undo(changes)

    def made(self, changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
        """Those of `changes` whose files are now as they left them. Blocks."""
        return self._history.made(changes)

    def real_names(self, changes: Sequence[FileChange], redact: Callable[[str], str]) -> list[FileChange]:
        """Recorded changes, which went through `redact`, as `undo` takes them."""
        return self._history.real_names(changes, redact)

    def close(self) -> None:
        """No call runs any more."""
        self._history.close()
