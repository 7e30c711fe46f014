"""The session store: list sessions without reading long logs, and find them by id or prefix."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.records import Moved, SessionRecord, TurnRecord
from kin_nb.core.session.encryption import SessionKeys, is_encrypted
from kin_nb.core.session.errors import (
    AmbiguousSessionError,
    EncryptedSessionError,
    LogRecordError,
    SessionError,
    SessionNotFoundError,
    UnreadableSessionError,
)
from kin_nb.core.session.full_outputs import read_output
from kin_nb.core.session.log import INCOMPLETE_NAME, LOG_NAME, SessionLog, Warn, read_lines, sessions_root
from kin_nb.core.session.state import SessionState
from kin_nb.core.session.summary import SessionSummary, summarize

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig

LATEST = "latest"
SHORTEST_PREFIX = 4
"""Minimum length of an id prefix."""
_SHOWN = 5
_MOST_NAMED = 10
"""Most calls that an error lists."""


@dataclass(frozen=True)
class StoredSession:
    """A session read from its log. `id`: the folder's name. The properties return parts of `state`."""

    id: str
    folder: Path
    state: SessionState

    @classmethod
    def read(cls, folder: Path, keys: SessionKeys | None = None) -> StoredSession:
        """Read the session in `folder`. Raises UnreadableSessionError, naming the log and the record, and EncryptedSessionError."""
        path = folder / LOG_NAME
        try:
            incomplete = (folder / INCOMPLETE_NAME).exists()
            state = SessionState.of(read_lines(path, keys), folder.name, incomplete=incomplete)
        except OSError as error:
            raise UnreadableSessionError(path, f"cannot be read ({error.strerror})") from error
        except LogRecordError as error:
            raise UnreadableSessionError(path, str(error)) from error
        if not state.header:
            raise UnreadableSessionError(path, "the session header is missing")
        return cls(folder.name, folder, state)

    @property
    def header(self) -> dict[str, Any]:
        return self.state.header

    @property
    def session_id(self) -> str:
        """The current id: it changes with clear and compact."""
        return self.state.session_id

    @property
    def records(self) -> tuple[SessionRecord, ...]:
        """All records, oldest first."""
        return tuple(self.state.records)

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        return tuple(record for record in self.state.records if isinstance(record, TurnRecord))

    @property
    def moves(self) -> tuple[Moved, ...]:
        """The records between turns (undo, redo, clear, compact), oldest first."""
        return tuple(record for record in self.state.records if isinstance(record, Moved))

    @property
    def started(self) -> datetime | None:
        return self.state.started

    @property
    def last_activity(self) -> datetime | None:
        return self.state.last_activity

    @property
    def lost_after(self) -> frozenset[int]:
        """Numbers of the turns (0: before the first) after which records are missing, because they could not be written."""
        return frozenset(self.state.lost_after)

    @property
    def full_outputs(self) -> Mapping[str, str]:
        """File names of full outputs, by call id (full_outputs.py)."""
        return self.state.full_outputs


class SessionStore:
    """The sessions in `root` (default: ~/.kin-code/sessions). `keys` open encrypted ones (default: the user's own)."""

    def __init__(self, root: Path | None = None, keys: SessionKeys | None = None) -> None:
        self.root, self._keys = root or sessions_root(), keys

    @classmethod
    def from_config(cls, settings: SessionLoggingConfig) -> SessionStore:
        """Return the store with the folder and the keys of `[session_logging]`."""
        return cls(sessions_root(settings.save_dir), SessionKeys(settings))

    def list(self, workdir: Path | None = None) -> Sequence[SessionSummary]:
        """List the sessions that have a turn, of all workspaces or of one; newest activity first.

        Unreadable sessions are left out. A session that no key opens is listed with its id and age only, and belongs to
        no workspace. Reads a few kilobytes at both ends of each log: 1000 sessions take a fraction of a second.
        """
        return [summary for summary in self._summaries(workdir) if workdir is None or not summary.locked]

    def find(self, name: str = LATEST, workdir: Path | None = None) -> StoredSession:
        """Find a session. `name`: "latest" or "" for the newest (of `workdir`, when given), an id, or a unique prefix.

        Raises SessionNotFoundError and AmbiguousSessionError (both list sessions), UnreadableSessionError,
        EncryptedSessionError.
        """
        return StoredSession.read(self._folder_of(name, workdir), self._keys)

    def resume(
        self, name: str = LATEST, workdir: Path | None = None, warn: Warn | None = None
    ) -> tuple[StoredSession, SessionLog]:
        """Return the session that `find` returns, and its log, open for appending and locked until it is closed.

        The log is locked before it is read. Raises what `find` raises, and SessionInUseError when another process has it open.
        """
        folder = self._folder_of(name, workdir)
        log = SessionLog.lock(folder.name, folder, warn, self._keys)
        try:
            stored = StoredSession.read(folder, self._keys)
        except BaseException:
            log.close()
            raise
        log.resume_after(stored.header, stored.state.totals)
        return stored, log

    def _summaries(self, workdir: Path | None) -> Sequence[SessionSummary]:
        wanted = None if workdir is None else workdir.resolve()
        found = (summarize(folder, wanted, self._keys) for folder in self._folders())
        return sorted(filter(None, found), key=lambda summary: (summary.last_activity, summary.id), reverse=True)

    def _folder_of(self, name: str, workdir: Path | None) -> Path:
        if name in {"", LATEST}:
            for summary in self._summaries(workdir):
                if not summary.locked or self._opens(summary):
                    return summary.folder
            place = f"of {workdir} " if workdir is not None else ""
            raise SessionNotFoundError(f"No sessions {place}in {self.root} yet.")
        folders = list(self._folders())
        exact = [folder for folder in folders if folder.name == name]
        found = exact or _named(folders, name, self._keys)
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(sorted(folder.name for folder in found)[:_SHOWN])
            raise AmbiguousSessionError(f"{len(found)} session ids start with {name}: {ids}. Give more characters.")
        raise SessionNotFoundError(f"No session {name} in {self.root}.{self._newest()}")

    def _opens(self, summary: SessionSummary) -> bool:
        """Return whether an encrypted session can be read: only then is it known to belong to the workspace.

        False for a damaged one. Raises EncryptedSessionError without its key: an older session is not used instead.
        """
        try:
            StoredSession.read(summary.folder, self._keys)
        except UnreadableSessionError:
            return False
        except EncryptedSessionError as error:
            advice = f"Session {summary.id} is the newest. To continue another one, give its id"
            raise EncryptedSessionError(f"{error}\n  {advice} (kin-nb sessions lists them).") from error
        return True

    def _newest(self) -> str:
        newest = [f"{summary.id[:8]} ({summary.title})" for summary in self.list()[:_SHOWN]]
        return f" The newest: {', '.join(newest)}." if newest else ""

    def _folders(self) -> Iterator[Path]:
        try:
            with os.scandir(self.root) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
        except OSError:
            return
        yield from (folder for name in names if (folder := self.root / name).joinpath(LOG_NAME).is_file())


def _named(folders: Sequence[Path], prefix: str, keys: SessionKeys | None) -> list[Path]:
    """Return the folders of sessions whose id starts with `prefix`; else of those that had such an id before a clear or compact."""
    if len(prefix) < SHORTEST_PREFIX:
        return []
    own = [folder for folder in folders if folder.name.startswith(prefix)]
    return own or [folder for folder in folders if _was_renamed(folder / LOG_NAME, prefix, keys)]


def _was_renamed(path: Path, prefix: str, keys: SessionKeys | None) -> bool:
    """Return whether the session had such an id. Quotes inside texts are escaped, so that only keys match.

    False for an encrypted log without its key.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            if is_encrypted(log.readline()):
                return any(str(line.get("session_id")).startswith(prefix) for line in read_lines(path, keys))
            return log.find(f'"session_id":"{prefix}'.encode()) >= 0
    except (OSError, ValueError, SessionError):  # ValueError: an empty file cannot be mapped
        return False


def full_output_of(stored: StoredSession, call_id: str, keys: SessionKeys | None = None) -> str:
    """Return the full output of a call: from its file, or from its record when nothing was cut.

    Raises SessionError, naming the call or the file; EncryptedSessionError.
    """
    calls = {call.id: call for turn in stored.turns for call in turn.calls}
    if call_id not in calls:
        known = ", ".join(f"{call.id} ({call.name})" for call in list(calls.values())[-_MOST_NAMED:])
        newest = f"The newest: {known}." if known else "The session has none."
        raise SessionError(f"No tool call {call_id} in session {stored.id}. {newest}")
    name = stored.full_outputs.get(call_id)
    return calls[call_id].output if name is None else read_output(stored.folder / LOG_NAME, name, keys)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection: reading a long session creates a hundred thousand objects and no garbage.

    Each collection would visit every object of the process, also the user's data, and free nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
