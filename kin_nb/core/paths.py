"""The user's folder `~/.kin-code`, or KIN_HOME, and how to read and write private files in it."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kin_nb.core.safe_fs import replace_path

LARGEST = 1_000_000
"""Most bytes of a settings file that is read."""

LOCK_SECONDS = 5.0


def kin_home() -> Path:
    """Return the user's folder. It is created, with mode 0700, only when something is written into it."""
    return Path(os.environ.get("KIN_HOME") or Path.home() / ".kin-code").expanduser()


def shown(path: Path) -> str:
    """Return `path` for display, with `~` for the home folder."""
    if path == Path.home():
        return "~"
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def real_path(path: Path) -> Path:
    """Resolve the symlinks of `path` as far as possible. Unlike `Path.resolve`, raises nothing for a loop of symlinks."""
    return Path(os.path.realpath(path))


def private_folder(path: Path) -> Path:
    """Create the folder `path` and its missing parents, readable by their owner only, and return it."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def read_settings(path: Path, *, private: bool = False) -> str | None:
    """Return the text of a settings file, with its line endings unchanged; None when it does not exist.

    Raises PermissionError for a `private` file that others may read. Raises OSError or ValueError, whose text omits the
    path, for a file that cannot be read, is larger than LARGEST, or is not a regular file (a named pipe could block).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if private and status.st_mode & 0o077:
            raise PermissionError(errno.EACCES, "other users may read it")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start})") from None


def write_private(path: Path, text: str) -> None:
    """Replace a file's contents atomically, with mode 0600. If `path` is a symlink, its target is replaced.

    Raises OSError.
    """
    target = real_path(path)
    private_folder(target.parent)
    replace_path(target, text.encode(), 0o600, sync=True)


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Lock a settings file while it is read, changed and written, so that no other program's change is lost.

    The lock is on the file's folder, so that no lock file remains. Without a lock if the file system does not support
    them. Raises TimeoutError after LOCK_SECONDS.
    """
    folder = private_folder(real_path(path).parent)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Lock an open file or folder for this process until it is closed, if the file system supports locks.

    Raises TimeoutError after LOCK_SECONDS.
    """
    import fcntl  # noqa: PLC0415  (only when something is saved)

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another program is writing here") from None
            time.sleep(0.01)
        except OSError:
            return  # a network file system without locks
        else:
            return
