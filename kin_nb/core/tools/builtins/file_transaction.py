"""Write, create and delete several files, all or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kin_nb.core import safe_fs
from kin_nb.core.text import listed
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.workspace import error_text, read_bytes

_NAMED = 5
"""Files in an error; the others are counted."""


@dataclass(frozen=True)
class PlannedWrite:
    """A file's content before and after; None: there is no file. `path` is resolved, `name` is for messages.

    `mode`: the permissions of a new file, None for the default; an existing file keeps its own.
    """

    path: Path
    name: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None


def check_writable(path: Path, name: str) -> int | None:
    """Return the mode of the file at `path`, None if there is none. Raises ToolError if it could not be written or deleted."""
    folder = path.parent
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        status = None
        while not os.path.lexists(folder):
            folder = folder.parent
        if not folder.is_dir():
            raise ToolError(f"{name}: {folder.name} is not a folder. Nothing was written.") from None
    except OSError as error:
        raise ToolError(f"{name}: {error_text(error)}. Nothing was written.") from error
    if status is not None and not os.access(path, os.W_OK):
        raise ToolError(f"{name} is read-only. Nothing was written.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ToolError(f"Cannot write {name}: its folder is read-only. Nothing was written.")
    return None if status is None else stat.S_IMODE(status.st_mode)


def write_all(changes: Sequence[PlannedWrite]) -> dict[Path, os.stat_result]:
    """Write and create files, then delete files; return the status of those that exist now.

    Raises ToolError if one of them fails; what was written until then is restored, and so it is if this is interrupted.
    """
    done: list[tuple[PlannedWrite, int | None, list[Path]]] = []
    statuses: dict[Path, os.stat_result] = {}
    name = ""
    try:
        for change in sorted(changes, key=lambda change: change.after is None):
            name = change.name
            mode = check_writable(change.path, name)
            done.append((change, mode, _missing_folders(change.path)))
            if change.after is None:
                text_file.remove(change.path, name)
            else:
                statuses[change.path] = text_file.write_atomically(change.path, change.after, name, mode=change.mode)
    except BaseException as error:
        failed = _restore(done)
        if not isinstance(error, ToolError):
            raise
        what = "Nothing was changed: what had been written before it was restored."
        if failed:
            what = f"What had been written before it was restored, except for: {listed(failed, _NAMED)}."
        raise ToolError(f"{str(error).removesuffix(' Nothing was written.')}\n{what}") from error
    return statuses


def _missing_folders(path: Path) -> list[Path]:
    """The folders that must be made for `path`, the innermost first."""
    return [folder for folder in path.parents if not os.path.lexists(folder)]


def _restore(done: Sequence[tuple[PlannedWrite, int | None, list[Path]]]) -> list[str]:
    """Restore the files, the last one first; return the names of those that could not be restored."""
    failed = []
    for change, mode, folders in reversed(done):
        try:
            if change.before is not None:
                if not os.path.lexists(change.path) or _content(change) != change.before:
                    text_file.write_atomically(change.path, change.before, change.name, mode=mode)
            elif os.path.lexists(change.path):
                text_file.remove(change.path, change.name)
            with suppress(OSError):  # gone already, or another program uses it
                for folder in folders:
                    with safe_fs.folder_of(folder) as (outer, own):
                        os.rmdir(own, dir_fd=outer)
        except (OSError, ToolError):
            failed.append(change.name)
    return failed


def _content(change: PlannedWrite) -> bytes:
    return read_bytes(change.path, text_file.LARGEST, change.name)
