"""Open and replace files without following a symbolic link anywhere in their paths.

The safety chain decides about a resolved path. Between that and the use another process may put a symbolic link in the
place of a folder. So files are reached from a descriptor of the root folder, one real folder after the other, and are
replaced by a rename within the descriptor of their folder. Standard library only: a search program imports this too.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""O_PATH: the permission to enter a folder is enough. macOS has none, so there it must be readable too."""
_OPENAT2 = 437  # on every architecture of Linux that we support
_NO_MAGIC_LINKS, _NO_SYMBOLIC_LINKS, _BENEATH = 0x02, 0x04, 0x08
_CHANGED = "a folder in its path is a symbolic link, and was none when the path was checked"


class PathChangedError(NotADirectoryError):
    """A folder in a resolved path is a symbolic link now."""

    def __init__(self) -> None:
        super().__init__(errno.ENOTDIR, _CHANGED)


@contextmanager
def folder_of(path: str | os.PathLike[str], *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder that holds `path`, and the name of `path` in it. `path` is absolute and resolved.

    `make`: missing folders are made. Raises OSError; PathChangedError when a folder on the way is a symbolic link.
    """
    parts = Path(path).parts
    root = os.open(os.sep, FOLDER_FLAGS)
    try:
        folder = open_folder(root, parts[1:-1], make=make)
    finally:
        os.close(root)
    try:
        yield folder, parts[-1] if len(parts) > 1 else "."
    finally:
        os.close(folder)


def open_folder(start: int, parts: Sequence[str], *, make: bool = False) -> int:
    """A descriptor of the folder that `parts` lead to from the folder `start`. Raises as `folder_of` does."""
    if any(part in {"", os.pardir, os.curdir} or os.sep in part for part in parts):
        raise OSError(errno.EINVAL, "the path is not resolved")
    openat2 = _openat2() if parts else None
    descriptor = openat2(start, "/".join(parts)) if openat2 else -1
    # where that call is missing, forbidden or fails, the walk opens the folder or raises the exact error
    return descriptor if descriptor >= 0 else _walk(start, parts, make=make)


def is_reachable(path: str | os.PathLike[str]) -> bool:
    """Whether something is at `path` (absolute, resolved), and no symbolic link leads there."""
    try:
        with folder_of(path) as (folder, name):
            return not stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return False


def replace_path(path: Path, content: bytes, permissions: int, *, sync: bool = False) -> None:
    """Make the file at `path`, or replace it in one step. A link there is replaced; links to its folder are followed.

    `sync`: the content is on the disk before the old file is replaced. Raises OSError.
    """
    with folder_of(os.path.join(os.path.realpath(path.parent), path.name)) as (folder, name):  # noqa: PTH118  (a text)
        replace_file(folder, name, content, permissions, sync=sync)


def replace_paths(files: Sequence[tuple[Path, bytes]]) -> None:
    """Replace the files as `replace_path` does, in order, once the new content of all of them is written.

    Permissions are kept; those of a new file are the default, less the umask.
    """
    with ExitStack() as stack:
        written: list[tuple[int, str, str]] = []
        for path, content in files:
            real = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118  (as above)
            folder, name = stack.enter_context(folder_of(real))
            temporary = stack.enter_context(temporary_name(folder))
            permissions = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            _write_new(folder, temporary, content, permissions)
            written.append((folder, temporary, name))
        for folder, temporary, name in written:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def replace_file(
    folder: int, name: str, content: bytes, permissions: int | None, default: int = 0o666, *, sync: bool = False
) -> None:
    """Make the file, or replace it in one step. `permissions` None: `default`, less the umask. Raises OSError."""
    with temporary_name(folder) as temporary:
        _write_new(folder, temporary, content, permissions, default, sync=sync)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _write_new(
    folder: int, name: str, content: bytes, permissions: int | None, default: int = 0o666, *, sync: bool = False
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, default if permissions is None else 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if permissions is not None:
            os.fchmod(descriptor, permissions)
        if sync:
            file.flush()
            os.fsync(descriptor)


@contextmanager
def temporary_name(folder: int) -> Iterator[str]:
    """A name that is free in the folder. What has it at the end is removed."""
    name = f".kin-{secrets.token_hex(8)}.tmp"
    try:
        yield name
    finally:
        with suppress(OSError):  # never made, or renamed
            os.unlink(name, dir_fd=folder)


def _walk(start: int, parts: Sequence[str], *, make: bool) -> int:
    descriptor = os.open(".", FOLDER_FLAGS, dir_fd=start)
    for part in parts:
        try:
            inner = _enter(descriptor, part, make=make)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _enter(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR} and _is_link(folder, name):
            raise PathChangedError from None
        raise
    with suppress(FileExistsError):  # made by another process; if it is a link, it is not entered
        os.mkdir(name, dir_fd=folder)
    return _enter(folder, name, make=False)


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:  # it was one a moment ago
        return True


@cache
def _openat2() -> Callable[[int, str], int] | None:
    """The system call that opens a folder without links in one step; None where there is none."""
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  (with the first file only)

    class OpenHow(ctypes.Structure):
        _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    how = OpenHow(FOLDER_FLAGS, 0, _BENEATH | _NO_SYMBOLIC_LINKS | _NO_MAGIC_LINKS)

    def open_beneath(start: int, path: str) -> int:
        arguments = (ctypes.c_long(_OPENAT2), ctypes.c_int(start), ctypes.c_char_p(os.fsencode(path)))
        return int(syscall(*arguments, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))))

    return open_beneath
