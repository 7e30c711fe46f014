"""The file of a session's log, for one writer at a time, who has seen all that is in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kin_nb.core.paths import private_folder
from kin_nb.core.session.errors import SessionInUseError, SessionWentOnError


def open_locked(path: Path, session_id: str, seen: int | None) -> int:
    """Its descriptor. `seen`: bytes that the writer knows of, 0 for a new log; None: whatever there is will be read.

    Raises SessionInUseError, SessionWentOnError; OSError, also when what was seen is gone: no log begins in the middle.
    """
    if not seen:
        private_folder(path.parent)
    flags = os.O_RDWR | os.O_APPEND
    file = os.open(path, flags if seen else flags | os.O_CREAT, 0o600)
    try:
        _lock(file, session_id)
        check_seen(file, session_id, seen)
    except BaseException:
        os.close(file)
        raise
    return file


def check_seen(file: int, session_id: str, seen: int | None) -> None:
    """Raises SessionWentOnError, OSError."""
    if seen is not None and os.fstat(file).st_size != seen:
        raise SessionWentOnError(session_id)


def end_torn_line(file: int) -> None:
    """A crash may have left half a line: what comes next begins its own."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")


def _lock(file: int, session_id: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionInUseError(session_id) from None
    except OSError:
        return  # a file system without locks: better a log than none
