"""Changing files of one folder, reached from its root without ever following a link on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from kin_nb.core.file_history.look import NOTHING, Look, look
from kin_nb.core.safe_fs import FOLDER_FLAGS, open_folder, replace_file, temporary_name


class Tree:
    """The files below one folder, by their parts. Everything here raises OSError."""

    def __init__(self, root: str) -> None:
        self._descriptor = os.open(root, FOLDER_FLAGS)

    def close(self) -> None:
        os.close(self._descriptor)

    def look(self, parts: Sequence[str], limit: int) -> Look:
        try:
            with self._above(parts) as folder:
                return look(parts[-1], limit, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return Look(NOTHING)

    def is_spelled(self, parts: Sequence[str]) -> bool:
        """Whether these very names are there: a file system may take others for the same."""
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
        """Only when it is empty."""
        with self._above(parts) as folder:
            os.rmdir(parts[-1], dir_fd=folder)

    def make_folder(self, parts: Sequence[str], permissions: int | None) -> None:
        """Below a folder that is there. One that is there already is fine."""
        with self._above(parts) as folder, suppress(FileExistsError):
            os.mkdir(parts[-1], 0o777 if permissions is None else permissions | 0o700, dir_fd=folder)

    def link(self, parts: Sequence[str], target: bytes) -> None:
        """Makes the link, or puts it in a file's place in one step."""
        with self._above(parts) as folder, temporary_name(folder) as name:
            os.symlink(target, os.fsencode(name), dir_fd=folder)
            os.replace(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)

    def write(self, parts: Sequence[str], content: bytes, permissions: int | None, *, executable: bool) -> None:
        """Makes the file, or takes its place in one step. `permissions` None: as new files get them here."""
        default = 0o777 if executable else 0o666
        with self._above(parts) as folder:
            replace_file(folder, parts[-1], content, permissions, default)

    @contextmanager
    def _above(self, parts: Sequence[str]) -> Iterator[int]:
        """The folder that holds the last part."""
        descriptor = open_folder(self._descriptor, parts[:-1])
        try:
            yield descriptor
        finally:
            os.close(descriptor)
