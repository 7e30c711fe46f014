"""`--scratch`: playback in a temporary copy of the workspace, in which the recorded changes of files are made as cells play."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kin_nb.core.session.file_history import BlobStore
from kin_nb.core.session.records import FileChange, TurnRecord, UndoRecord
from kin_nb.render import Output, render_notice
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.playback.finding import Found
from kin_nb.replay.rerun.stand_ins import change_again
from kin_nb.replay.runner.place import copy_beside, workspace_of
from kin_nb.replay.runner.report import SCRATCH


class Scratch:
    """`folder`: the copy. Nothing else is written, whatever a record says: every path is checked, and every hash."""

    def __init__(self, folder: Path, contents: Path) -> None:
        self._folder = folder
        self._store = BlobStore(contents)
        self._cwd: Path | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def given(cls, environment: ReplayEnvironment | None) -> Scratch | None:
        """The one that `kin-nb replay --scratch` made for this kernel and removes, None when it made none."""
        if environment is None or environment.mode != "scratch":
            return None
        return cls(environment.workspace, environment.temporary / "contents.sqlite")

    @classmethod
    def here(cls, found: Found) -> Scratch:
        """A new one for this kernel, in which it works until `close`. Raises ReplayError when there is no workspace."""
        path = found.path.resolve()
        workspace = workspace_of(path, found.recording)
        temporary = tempfile.TemporaryDirectory(prefix="kin-scratch-", ignore_cleanup_errors=True)
        root = Path(temporary.name).resolve()
        cwd, copied = copy_beside(path, workspace, found.recording.meta.workspace.commit, root / "workspace")
        scratch = cls(copied.folder, root / "contents.sqlite")
        scratch._temporary, scratch._cwd = temporary, Path.cwd()
        os.chdir(cwd)
        return scratch

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Meanwhile the kernel is where it was before: what begins there outlives the copy."""
        inside = Path.cwd()
        if self._cwd is not None:
            os.chdir(self._cwd)
        try:
            yield
        finally:
            os.chdir(inside)

    def close(self) -> None:
        """The kernel is where it was before, and the copy is gone, if it was made here."""
        self._store.close()
        if self._temporary is not None and self._cwd is not None:
            os.chdir(self._cwd)
            self._temporary.cleanup()

    def play(self, record: TurnRecord | UndoRecord) -> list[Output]:
        """Change the files as `record` did; a notice when some of that cannot be."""
        if isinstance(record, TurnRecord):
            return self._changed(f"turn {record.turn}", [change for call in record.calls for change in call.files])
        return self._changed(f"{record.type} of turn {', '.join(map(str, record.turns))}", record.files)

    def _changed(self, place: str, changes: Sequence[FileChange]) -> list[Output]:
        missing = change_again(self._folder, changes, self._store) if changes else {}
        lines = [f"{path}: {why}" for path, why in sorted(missing.items())]
        return [scratch_notice("Not in the scratch copy", lines, place=place, missing=lines)] if lines else []


def scratch_notice(title: str, lines: Iterable[str], **more: object) -> Output:
    """Never compared: `metadata.kin.kind` says what it is."""
    notice = render_notice(title, lines)
    return Output(notice.data, {**notice.metadata, "kin": {**notice.metadata["kin"], "kind": SCRATCH, **more}})
