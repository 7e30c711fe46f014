"""Where things live: `~/.kin-code`, moved by KIN_HOME; and how a private file there is read and written."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LARGEST = 1_000_000
"""Bytes of the largest settings file that is read."""

LOCK_SECONDS = 5.0


def kin_home() -> Path:
    """The user's folder. Not created here: only whoever writes into it does that, with mode 0700."""
    return Path(os.environ.get("KIN_HOME") or Path.home() / ".kin-code").expanduser()


def shown(path: Path) -> str:
    """With `~` for the home folder: shorter, and what a person would type."""
    if path == Path.home():
        return "~"
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def real_path(path: Path) -> Path:
    """Where symlinks lead, as far as they do: unlike `Path.resolve`, no error for those that go in circles."""
    return Path(os.path.realpath(path))


def private_folder(path: Path) -> Path:
    """`path`, made with its parents; each folder made is readable by its owner only."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def read_settings(path: Path, *, private: bool = False) -> str | None:
    """The text of a settings file, line endings as they are; None when there is none.

    Raises PermissionError when it must be `private` and others may read it; OSError or ValueError (what is wrong, without
    the path) for whatever cannot be read, is larger than LARGEST or is no regular file: a named pipe would block for ever.
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
    """Replace a file's content at once, mode 0600: a reader sees the old text or the new. A symlink stays a symlink.

    Raises OSError.
    """
    import tempfile  # noqa: PLC0415  (only when something is saved)

    target = real_path(path)
    private_folder(target.parent)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold this while a settings file is read, changed and written: nobody else's change is lost.

    Locks the file's folder, so that nothing is left behind; where the file system has no locks, goes on without. Raises
    TimeoutError after LOCK_SECONDS.
    """
    folder = private_folder(real_path(path).parent)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Lock an open file or folder for this process, until it is closed; without an effect where there are no locks.

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
