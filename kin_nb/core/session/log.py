"""The session log: append-only JSON lines under `~/.kin-code/sessions/<id>/log.jsonl`.

Each line is handed to the operating system before its effect happens; one fsync at the end of a turn. What a line
costs depends on that line alone. A full disk is reported once, and the session continues in memory.
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
    is_encrypted,
    ready_to_append,
    sealed_records,
    write_all,
)
from kin_nb.core.session.errors import SessionInUseError, SessionWentOnError
from kin_nb.core.session.state import Totals
from kin_nb.core.session.whole_outputs import write_output

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig

LOG_FORMAT = 1
LOG_NAME = "log.jsonl"
INCOMPLETE_NAME = "incomplete"
"""An empty file next to a log that lacks its last records: a full disk still takes one. A resume's first record replaces it."""
LOST = "What happens from here on, and undo of it, is lost when it is closed. Free space, then begin a new session."

Warn = Callable[[str], None]


def new_session_id() -> str:
    return str(uuid4())


def sessions_root(save_dir: str = "") -> Path:
    """Where sessions are kept. `save_dir`: `[session_logging] save_dir`, "" for ~/.kin-code/sessions."""
    return Path(save_dir).expanduser().absolute() if save_dir else kin_home() / "sessions"


def session_log(session_id: str, settings: SessionLoggingConfig, warn: Warn | None = None) -> SessionLog:
    """The log of a new session, as `[session_logging]` wants it."""
    kind = SessionLog if settings.enabled else UnwrittenLog
    folder = sessions_root(settings.save_dir) / session_id
    return kind(session_id, folder=folder, warn=warn, keys=SessionKeys(settings, warn))


class SessionLog:
    """Appends records of one session. The folder is made with the first record, mode 0700; the file has 0600.

    The file is locked while it is open, so that two agents never write into one session; the lock ends with the process,
    however that ends. The first append raises SessionInUseError when somebody else has the lock, and SessionWentOnError
    when somebody else had it since this was closed. `went_on`: `check` found that out.
    `failure`: why records reach the file no longer, "" while they do. `lost_output`: a whole output could not be kept.
    `begun`: the session's header is in the log. `start_time` is the header's, "" before. `keys` say whether a new log is
    encrypted, and open one that is; without them it is plain, or opened with the user's own. The first append raises
    EncryptedSessionError where there is no key: nothing is written in clear that was to be encrypted.
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
        self.begun = False
        self.start_time = ""
        self.went_on = False
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
        """The log of a stored session, open and locked. Raises SessionInUseError, EncryptedSessionError.

        `go_on_after` must tell it what it holds, read after this, before anything is appended.
        """
        log = cls(session_id, folder=folder, warn=warn, keys=keys)
        log._seen = None
        try:
            log._open()
        except OSError as error:
            log._give_up(error)
        return log

    def go_on_after(self, header: Mapping[str, Any], totals: Totals) -> None:
        """The session is resumed: a line says so before the next record, and only if there is one."""
        self.begun = self._resumes = True
        self.start_time, self._totals = str(header.get("start_time") or ""), totals

    def check(self) -> None:
        """Before a turn, and before what is between turns is changed. Also without locks: is all of the log known here?

        Raises SessionInUseError, SessionWentOnError; then the log is closed, and may be resumed.
        """
        if not (self.begun and self.is_written):
            return
        try:
            _check_seen(self._open(), self.session_id, self._seen)
        except SessionWentOnError:
            self.went_on = True
            self.close()
            raise
        except OSError as error:
            self._give_up(error)

    def append(self, type_: str, **fields: Any) -> None:
        """One line. `fields` hold text, whole numbers and records' dumps; the time is added here."""
        if self._resumes:
            self._resumes = False
            mark = self.folder / INCOMPLETE_NAME
            self._write({"type": "resumed", "time": _now(), **({"incomplete": True} if mark.exists() else {})})
            if not self.failure:
                mark.unlink(missing_ok=True)
        self._write({"type": type_, "time": _now(), **fields})
        if type_ == "session":
            self.begun, self.start_time = True, str(fields.get("start_time") or "")

    def keep(self, output: bytes) -> str:
        """Put an output beside the log, on any thread: its name, for the record that comes next; "" when it is not kept."""
        if self._file is None or not self.is_written:
            return ""
        try:
            return write_output(self.folder, output, self._cipher)
        except OSError as error:
            self.lost_output = True
            if self._warn is not None:
                self._warn(
                    f"The whole output of a call was not kept ({error.strerror}); the log has what the model got."
                )
            return ""

    @property
    def is_written(self) -> bool:
        """Whether records reach a file. Not with `[session_logging] enabled = false`, nor on a full disk."""
        return not self.failure

    @property
    def is_ours(self) -> bool:
        """Nobody else can have the session now: its file is open here, or none is written."""
        return self._file is not None or not self.is_written

    def sync(self) -> None:
        """The turn is over: make it survive a power cut."""
        if self._file is not None and not self.failure:
            try:
                os.fsync(self._file)
            except OSError as error:
                self._give_up(error)
                self._mark_incomplete()

    def close(self) -> None:
        """Others may open the session now."""
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
        """The file, opened and locked when it is not. Raises as `_open_locked`, and EncryptedSessionError."""
        if self._file is None:
            file = _open_locked(self.path, self.session_id, self._seen)
            try:
                self._cipher = ready_to_append(file, self._keys)
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
    """`[session_logging] enabled = false`: nothing is written, no folder is made."""

    @property
    def is_written(self) -> bool:
        return False

    def _write(self, record: dict[str, Any]) -> None:
        """The session lives in memory only."""


def _open_locked(path: Path, session_id: str, seen: int | None) -> int:
    """Its descriptor. `seen`: bytes that the writer knows of, 0 for a new log; None: whatever there is will be read.

    Raises SessionInUseError, SessionWentOnError; OSError, also when what was seen is gone: no log begins in the middle.
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
    """Raises SessionWentOnError, OSError."""
    if seen is not None and os.fstat(file).st_size != seen:
        raise SessionWentOnError(session_id)


def _end_torn_line(file: int) -> None:
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


def _now() -> int:
    return int(time.time() * 1000)


def read_lines(path: Path, keys: SessionKeys | None = None) -> Iterator[dict[str, Any]]:
    """The log's records. A line that makes no sense is skipped: a crash cut it.

    An encrypted log is opened with `keys`, or the user's own. Raises EncryptedSessionError, and UnreadableSessionError for
    an encrypted log that was tampered with.
    """
    with path.open("rb") as file:
        first = file.readline()
        lines = sealed_records(file, first, path, keys) if is_encrypted(first) else chain((first,), file)
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
