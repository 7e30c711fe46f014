"""Disks that are full: small file systems of their own where this may mount them, else stand-ins for what they raise."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kin_nb.core import safe_fs
from kin_nb.core.file_history.database import Database, StoreError
from kin_nb.core.session import encryption, full_outputs, log

SIZE = "2m"


def mounted(path: Path) -> bool:
    """Whether `path` could be made a small file system; the caller unmounts it."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(path)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def unmount(path: Path) -> None:
    subprocess.run(["umount", "-l", str(path)], capture_output=True, check=True)


class SmallDisk:
    """A real one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, leave: int = 0) -> None:
        """So that `leave` bytes are free, in whole blocks."""
        room = os.statvfs(self.path)
        (self.path / "filler").write_bytes(b"x" * (room.f_bavail * room.f_bsize - leave))

    def free(self) -> None:
        (self.path / "filler").unlink()


class NoSpace:
    """A stand-in: while it is full, the writers of this program get what a full disk gives them."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self._patch = path, monkeypatch
        path.mkdir(parents=True, exist_ok=True)

    def fill(self, leave: int = 0) -> None:
        def write_all(file: int, data: bytes) -> None:
            if len(data) > leave:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            encryption.write_all(file, data)

        def replace_path(path: Path, content: bytes, permissions: int) -> None:
            if len(content) > leave:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            safe_fs.replace_path(path, content, permissions)

        @contextmanager
        def writing(database: Database) -> Iterator[None]:
            raise StoreError(f"the file history in {database.path.parent} cannot be used (database or disk is full)")
            yield

        if self.path.name == "sessions":
            self._patch.setattr(log, "write_all", write_all)
            self._patch.setattr(full_outputs, "replace_path", replace_path)
        else:
            self._patch.setattr(Database, "writing", writing)

    def free(self) -> None:
        self._patch.undo()


Disk = SmallDisk | NoSpace
