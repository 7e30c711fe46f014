"""The session log: append-only JSON lines in `~/.kin-code/sessions/<id>/log.jsonl`.

Each line is written before its effect happens; one fsync at the end of a turn. The cost of a line depends on that
line alone. A full disk is reported once, and the session continues in memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kin_nb.core.paths import kin_home, private_folder
from kin_nb.core.session.encryption import (
    LineCipher,
    SessionKeys,
    decrypt_records,
    is_encrypted,
    prepare_append,
    write_all,
)
from kin_nb.core.session.errors import SessionContinuedElsewhereError, SessionInUseError
from kin_nb.core.session.full_outputs import write_output
from kin_nb.core.session.state import Totals

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig

LOG_FORMAT = 1
LOG_NAME = "log.jsonl"
INCOMPLETE_NAME = "incomplete"
"""An empty file next to a log that lacks its last records: a full disk still has room for it. Removed by the next resume."""
LOST = "Everything after this point, and undo of it, is lost when it is closed. Free space, then start a new session."

Warn = Callable[[str], None]


def new_session_id() -> str:
    return str(uuid4())


def sessions_root(save_dir: str = "") -> Path:
    """Return the folder of all sessions. `save_dir`: `[session_logging] save_dir`, "" for ~/.kin-code/sessions."""
    return Path(save_dir).expanduser().absolute() if save_dir else kin_home() / "sessions"


def session_log(session_id: str, settings: SessionLoggingConfig, warn: Warn | None = None) -> SessionLog:
    """Return the log of a new session, with the settings of `[session_logging]`."""
    kind = SessionLog if settings.enabled else UnwrittenLog
    folder = sessions_root(settings.save_dir) / session_id
    return kind(session_id, folder=folder, warn=warn, keys=SessionKeys(settings, warn))


class SessionLog:
    """Append the records of one session. The folder is created with the first record, mode 0700; the file has 0600.

    The file is locked while it is open, so that two agents never write to one session; the lock ends with the process.
    The first append raises SessionInUseError when another process holds the lock, SessionContinuedElsewhereError when
    another process has written since this log was closed, and EncryptedSessionError when a session to be encrypted has
    no key: then nothing is written in plain text.

    `failure`: why records are no longer written, "" while they are. `lost_output`: a full output could not be saved.
    `has_header`: the session's header is in the log. `start_time` is the header's, "" before that.
    `continued_elsewhere`: `check` raised SessionContinuedElsewhereError. `keys`: whether a new log is encrypted, and the
    key of one that is; without them a new log is plain, and an encrypted one is opened with the user's own keys.
    """

    def __init__(
        self,
        session_id: str,
        *,
        folder: Path | None = None,
        warn: Warn | None = None,
        keys: SessionKeys | None = None,
    ) -> None:
        self.session_id = session_id
        self.folder = folder or sessions_root() / session_id
        self.path = self.folder / LOG_NAME
        self.has_header = False
        self.start_time = ""
        self.continued_elsewhere = False
        self._warn, self._keys = warn, keys
        self._cipher: LineCipher | None = None
        self._file: int | None = None
        self._seen: int | None = 0
        self.failure = ""
        self.lost_output = False
        self._resumes = False
        self._totals = Totals()

    @classmethod
    def lock(
        cls, session_id: str, folder: Path, warn: Warn | None = None, keys: SessionKeys | None = None
    ) -> SessionLog:
        """Return the log of a stored session, open and locked. Raises SessionInUseError, EncryptedSessionError.

        Read the log after this call, and pass its header and totals to `resume_after` before the first append.
        """
        log = cls(session_id, folder=folder, warn=warn, keys=keys)
        log._seen = None
        try:
            log._open()
        except OSError as error:
            log._give_up(error)
        return log

    def resume_after(self, header: Mapping[str, Any], totals: Totals) -> None:
        """Resume the session: the next append writes the line `resumed` first."""
        self.has_header = self._resumes = True
        self.start_time, self._totals = str(header.get("start_time") or ""), totals

    def check(self) -> None:
        """Check, also on file systems without locks, that no other process has written to the log.

        Call it before a turn and before a change between turns. Raises SessionInUseError, and
        SessionContinuedElsewhereError; then the log is closed, and may be resumed.
        """
        if not (self.has_header and self.is_written):
            return
        try:
            _check_seen(self._open(), self.session_id, self._seen)
        except SessionContinuedElsewhereError:
            self.continued_elsewhere = True
            self.close()
            raise
        except OSError as error:
            self._give_up(error)

    def append(self, type_: str, **fields: Any) -> None:
        """Append one line. `fields` hold text, integers and dumps of records; the time is added here, in milliseconds."""
        if self._resumes:
            self._resumes = False
            mark = self.folder / INCOMPLETE_NAME
            self._write({"type": "resumed", "time": _now(), **({"incomplete": True} if mark.exists() else {})})
            if not self.failure:
                mark.unlink(missing_ok=True)
        self._write({"type": type_, "time": _now(), **fields})
        if type_ == "session":
            self.has_header, self.start_time = True, str(fields.get("start_time") or "")

    def save_output(self, output: bytes) -> str:
        """Write an output to a file next to the log. Return the file's name, "" when it could not be written.

        May be called from any thread.
        """
        if self._file is None or not self.is_written:
            return ""
        try:
            return write_output(self.folder, output, self._cipher)
        except OSError as error:
            self.lost_output = True
            if self._warn is not None:
                self._warn(
                    f"The full output of a tool call was not saved ({error.strerror}).\n"
                    "The session log has the shortened output that the model got. Free space to save the next ones."
                )
            return ""

    @property
    def is_written(self) -> bool:
        """Whether records are written: False with `[session_logging] enabled = false`, and after a write failed."""
        return not self.failure

    @property
    def is_exclusive(self) -> bool:
        """Whether no other process can open the session: its file is locked here, or no file is written."""
        return self._file is not None or not self.is_written

    def sync(self) -> None:
        """Flush the log to the disk (fsync), so that the turn survives a power cut."""
        if self._file is not None and not self.failure:
            try:
                os.fsync(self._file)
            except OSError as error:
                self._give_up(error)
                self._mark_incomplete()

    def close(self) -> None:
        """Close and unlock the file. The next append opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, record: dict[str, Any]) -> None:
        if self.failure:
            self._mark_incomplete()
            return
        try:
            file = self._open()
            self._totals = self._totals.after(record)
            if record["type"] == "end":
                record["totals"] = self._totals.model_dump()
            data = json.dumps(record, separators=(",", ":")).encode()
            line = (self._cipher and self._cipher.seal(data, os.fstat(file).st_size)) or data + b"\n"
            write_all(file, line)  # a disk that fills up takes a part, and refuses the rest
            self._seen = (self._seen or 0) + len(line)
        except OSError as error:
            self._give_up(error)
            self._mark_incomplete()

    def _open(self) -> int:
        """Return the file, open and locked. Raises what `_open_locked` raises, and EncryptedSessionError."""
        if self._file is None:
            file = _open_locked(self.path, self.session_id, self._seen)
            try:
                self._cipher = prepare_append(file, self._keys)
                _end_torn_line(file)
                self._seen = os.fstat(file).st_size
            except BaseException:
                os.close(file)
                raise
            self._file = file
        return self._file

    def _give_up(self, error: OSError) -> None:
        self.failure = f"the session log cannot be written ({error.strerror or error})"
        if self._warn is not None:
            self._warn(f"T{self.failure[1:]}; this session continues in memory only.\n{LOST}")

    def _mark_incomplete(self) -> None:
        with suppress(OSError):
            (self.folder / INCOMPLETE_NAME).touch(0o600)


class UnwrittenLog(SessionLog):
    """The log with `[session_logging] enabled = false`: nothing is written, no folder is created."""

    @property
    def is_written(self) -> bool:
        return False

    def _write(self, record: dict[str, Any]) -> None:
        """Write nothing: the session is in memory only."""


def _open_locked(path: Path, session_id: str, seen: int | None) -> int:
    """Return the file's descriptor. `seen`: the size in bytes that the writer knows, 0 for a new log; None: not read yet.

    Raises SessionInUseError, SessionContinuedElsewhereError; OSError, also when a log that was seen is deleted.
    """
    if not seen:
        private_folder(path.parent)
    flags = os.O_RDWR | os.O_APPEND
    file = os.open(path, flags if seen else flags | os.O_CREAT, 0o600)
    try:
        _lock(file, session_id)
        _check_seen(file, session_id, seen)
    except BaseException:
        os.close(file)
        raise
    return file


def _check_seen(file: int, session_id: str, seen: int | None) -> None:
    """Raises SessionContinuedElsewhereError, OSError."""
    if seen is not None and os.fstat(file).st_size != seen:
        raise SessionContinuedElsewhereError(session_id)


def _end_torn_line(file: int) -> None:
    """End an incomplete last line, which a crash may leave: the next record gets a line of its own."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")


def _lock(file: int, session_id: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionInUseError(session_id) from None
    except OSError:
        return  # a file system without locks: log without one


def _now() -> int:
    return int(time.time() * 1000)


def read_lines(path: Path, keys: SessionKeys | None = None) -> Iterator[dict[str, Any]]:
    """Yield the log's records. Lines that are not valid JSON objects are skipped: a crash cut them.

    An encrypted log is opened with `keys`, or with the user's own. Raises EncryptedSessionError, and
    UnreadableSessionError for an encrypted log that was changed.
    """
    with path.open("rb") as file:
        first = file.readline()
        lines = decrypt_records(file, first, path, keys) if is_encrypted(first) else chain((first,), file)
        for line in lines:
            record = parse_line(line)
            if record is not None:
                yield record


def parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
