r"""Read the state of a path (`observe`), and convert file names to the names in records and back.

Links are not followed, files that could block are not opened, and the size is limited. A file name is bytes, and a record
is text: each byte of invalid UTF-8, of a control character or of a backslash is written as `\xNN`, and the rest is
unchanged. So each file name has exactly one recorded name, and can be restored from it.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kin_nb.core.records import sha256
from kin_nb.core.safe_fs import PathChangedError, folder_of

FILE, EXECUTABLE, LINK = "100644", "100755", "120000"
EMPTY = sha256(b"")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY
_SIXTY_THREE_BITS = (1 << 63) - 1
"""The largest integer in SQLite; some file systems have larger inode numbers."""
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


class State(NamedTuple):
    """A state as in records: git's mode, and the sha256 of the content (for a link, of its target; for a folder, None)."""

    mode: str = ""
    sha: str | None = None


NOTHING = State()
FOLDER = State("040000")


class Unknown(StrEnum):
    """Why the state of a path is unknown."""

    LARGE = "too large"
    SPECIAL = "not a regular file"
    UNREADABLE = "not readable"
    IGNORED = "ignored"


@dataclass(frozen=True)
class ObservedFile:
    """The state of a path. `state` None: unknown, for the reason in `unknown`. `settled`: it did not change while it was read."""

    state: State | None
    status: os.stat_result | None = None
    content: bytes | None = None
    unknown: Unknown | None = None
    settled: bool = True


def observe(path: str, limit: int, *, dir_fd: int | None = None, status: os.stat_result | None = None) -> ObservedFile:
    """Read the state of `path` (relative to `dir_fd`, if given). Files over `limit` bytes are not read.

    `status`: the result of os.lstat, if it is known.
    """
    try:
        status = status or os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFREG:
            return _file(path, limit, dir_fd, status)
        if kind == stat.S_IFLNK:
            target = os.fsencode(os.readlink(path, dir_fd=dir_fd))
            return ObservedFile(State(LINK, sha256(target)), status, target)
    except (FileNotFoundError, NotADirectoryError):
        return ObservedFile(NOTHING)
    except (OSError, ValueError):
        return ObservedFile(None, status, unknown=Unknown.UNREADABLE)
    return ObservedFile(FOLDER, status) if kind == stat.S_IFDIR else ObservedFile(None, status, unknown=Unknown.SPECIAL)


def observe_without_links(
    path: str | os.PathLike[str], limit: int, status: os.stat_result | None = None
) -> ObservedFile:
    """Do the same as `observe` for an absolute, resolved path. It is unreadable if a folder in it has become a link."""
    try:
        with folder_of(path) as (folder, name):
            return observe(name, limit, dir_fd=folder, status=status)
    except PathChangedError:
        return ObservedFile(None, status, unknown=Unknown.UNREADABLE)
    except (FileNotFoundError, NotADirectoryError):
        return ObservedFile(NOTHING)
    except (OSError, ValueError):
        return ObservedFile(None, status, unknown=Unknown.UNREADABLE)


def file_mode(status: os.stat_result) -> str:
    return EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE


def mark(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return a value that differs when a file has changed. It includes ctime, which programs cannot set."""
    return (
        status.st_size,
        status.st_mtime_ns & _SIXTY_THREE_BITS,
        status.st_ctime_ns & _SIXTY_THREE_BITS,
        status.st_ino & _SIXTY_THREE_BITS,
        status.st_mode,
    )


def _file(path: str, limit: int, dir_fd: int | None, status: os.stat_result) -> ObservedFile:
    if status.st_size > limit:
        return ObservedFile(None, status, unknown=Unknown.LARGE)
    descriptor = os.open(path, _FLAGS, dir_fd=dir_fd)
    try:
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):  # replaced since
            return ObservedFile(None, opened, unknown=Unknown.SPECIAL)
        content = _read(descriptor, limit + 1)
        settled = mark(os.fstat(descriptor)) == mark(opened)
    finally:
        os.close(descriptor)
    if len(content) > limit:
        return ObservedFile(None, opened, unknown=Unknown.LARGE)
    return ObservedFile(State(file_mode(opened), sha256(content)), opened, content, settled=settled)


def _read(descriptor: int, most: int) -> bytes:
    chunks = []
    while most > 0 and (chunk := os.read(descriptor, min(most, 1 << 20))):
        chunks.append(chunk)
        most -= len(chunk)
    return b"".join(chunks)


def recorded_name(path: str) -> str:
    """Return the name for records. `path` is as Python returns it, with surrogates for invalid UTF-8."""
    return _UNSAFE.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in os.fsencode(match[0])), path)


def file_name(recorded: str) -> str:
    """Return the file name of a recorded name. A backslash without `xNN` is kept, because old records had no escapes."""
    raw = _ESCAPED.sub(lambda match: os.fsdecode(bytes([int(match[1], 16)])), recorded)
    return os.fsdecode(os.fsencode(raw)) if is_file_name(raw) else raw


def is_file_name(path: str) -> bool:
    """Whether a file can have that name: it has neither a NUL nor a surrogate that does not encode a byte."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False
