"""SeenFiles: which files the model has seen, and whether they are still what it saw.

A file is told by its inode, size and times: to read a part of a large file must not cost a look at all of it. The time of
change (ctime) cannot be set back by whoever writes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kin_nb.core.tool_types import BaseToolState, ToolError
from kin_nb.core.tools.call_context import call_context

if TYPE_CHECKING:
    from kin_nb.core.tools.manager import ToolManager

READER = "read_file"
_OTHER = (0, 0, 0, 0)
"""The stamp of no file: what is there is not what the model saw."""


class SeenFiles(BaseToolState):
    """What read_file remembers for the session. Paths are resolved. A file that was never read is no stale one."""

    stamps: dict[Path, tuple[int, int, int, int]] = Field(default_factory=dict)

    def note(self, path: Path, status: os.stat_result | None = None) -> None:
        """The model knows the file as it is now, or as it was when it had `status`."""
        self.stamps[path] = _stamp(path.stat() if status is None else status)

    def note_as_of(self, path: Path, milliseconds: int) -> None:
        """The model knew the file as it was then, of time.time: its time of change tells whether it still is that."""
        try:
            status = path.stat()
        except OSError:
            self.stamps[path] = _OTHER
            return
        self.stamps[path] = _stamp(status) if status.st_ctime_ns < (milliseconds + 1) * 1_000_000 else _OTHER

    def is_stale(self, path: Path) -> bool:
        if path not in self.stamps:
            return False
        try:
            return _stamp(path.stat()) != self.stamps[path]
        except OSError:
            return False  # it is gone: that is said otherwise


def refuse_stale(path: Path, name: str) -> None:
    """Before all of a file is replaced. Raises ToolError when somebody has changed it since the model read it."""
    if said := stale_note(path, name):
        raise ToolError(f"{said} Nothing was written: read it again first, or what is new in it is lost.")


def stale_note(path: Path, name: str) -> str:
    """A sentence for the model when the file is not what it read, else ""."""
    seen = _seen()
    return f"{name} has changed since you read it." if seen is not None and seen.is_stale(path) else ""


def written(path: Path, status: os.stat_result, *, known: bool) -> None:
    """The model has just written `path`. `known`: it knows all that is in it now, as it did before."""
    seen = _seen()
    if seen is not None and known:
        seen.note(path, status)


def knows(path: Path) -> bool:
    """Whether the model has read `path`, and it is still what it read."""
    seen = _seen()
    return seen is not None and path in seen.stamps and not seen.is_stale(path)


def _seen() -> SeenFiles | None:
    """The session's, None outside one and where the model cannot read files."""
    call = call_context.get()
    return None if call is None else seen_by(call.tools)


def seen_by(tools: ToolManager) -> SeenFiles | None:
    """None where the model cannot read files."""
    if READER not in tools.available_tools():
        return None
    state = tools.get(READER).state
    return state if isinstance(state, SeenFiles) else None


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
