"""The store: every session under one folder, listed without reading long logs, and found by the beginning of its id."""

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
from kin_nb.core.session.log import INCOMPLETE_NAME, LOG_NAME, SessionLog, Warn, read_lines, sessions_root
from kin_nb.core.session.state import SessionState
from kin_nb.core.session.summary import SessionSummary, summarise
from kin_nb.core.session.whole_outputs import read_output

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig

LATEST = "latest"
SHORTEST_PREFIX = 4
"""Characters of an id that name a session, at the least."""
_SHOWN = 5
_MOST_NAMED = 10
"""Calls in an error's text."""


@dataclass(frozen=True)
class StoredSession:
    """A session as its log tells it. `id` names the folder. `state`: what its log comes to; the properties are its parts."""

    id: str
    folder: Path
    state: SessionState

    @classmethod
    def read(cls, folder: Path, keys: SessionKeys | None = None) -> StoredSession:
        """Raises UnreadableSessionError, naming the log and the record in it, and EncryptedSessionError."""
        path = folder / LOG_NAME
        try:
            incomplete = (folder / INCOMPLETE_NAME).exists()
            state = SessionState.of(read_lines(path, keys), folder.name, incomplete=incomplete)
        except OSError as error:
            raise UnreadableSessionError(path, f"cannot be read ({error.strerror})") from error
        except LogRecordError as error:
            raise UnreadableSessionError(path, str(error)) from error
        if not state.header:
            raise UnreadableSessionError(path, "does not begin with a session's header")
        return cls(folder.name, folder, state)

    @property
    def header(self) -> dict[str, Any]:
        return self.state.header

    @property
    def session_id(self) -> str:
        """The newest, after clear and compact."""
        return self.state.session_id

    @property
    def records(self) -> tuple[SessionRecord, ...]:
        """All that the session is made of, in the order in which it happened."""
        return tuple(self.state.records)

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        return tuple(record for record in self.state.records if isinstance(record, TurnRecord))

    @property
    def moves(self) -> tuple[Moved, ...]:
        """What moved the conversation between its turns, oldest first."""
        return tuple(record for record in self.state.records if isinstance(record, Moved))

    @property
    def started(self) -> datetime | None:
        return self.state.started

    @property
    def last_activity(self) -> datetime | None:
        return self.state.last_activity

    @property
    def taken_over(self) -> frozenset[str]:
        """The ids of records that it continued from: a notebook's, which may have more in them."""
        return frozenset(self.state.taken_over)

    @property
    def lost_after(self) -> frozenset[int]:
        """Numbers of the turns (0: before the first) after which records are missing, because they could not be written."""
        return frozenset(self.state.lost_after)

    @property
    def whole(self) -> Mapping[str, str]:
        """The names of the files that have all of an output, by the call's id (whole_outputs.py)."""
        return self.state.whole_outputs


class SessionStore:
    """`root`: ~/.kin-code/sessions when absent.

    `keys` open encrypted sessions; the user's own when absent.
    """

    def __init__(self, root: Path | None = None, keys: SessionKeys | None = None) -> None:
        self.root, self._keys = root or sessions_root(), keys

    @classmethod
    def configured(cls, settings: SessionLoggingConfig) -> SessionStore:
        """Where `[session_logging]` keeps sessions, and with its keys."""
        return cls(sessions_root(settings.save_dir), SessionKeys(settings))

    def list(self, workdir: Path | None = None) -> Sequence[SessionSummary]:
        """Every session that has a turn, or those of one workspace; newest activity first. Unreadable ones are left out.

        Of an encrypted one that no key opens, its id and its age are all there is to tell; no workspace has it.

        A few kilobytes of each log are read, its beginning and its end: 1000 sessions take a fraction of a second.
        """
        return [summary for summary in self._summaries(workdir) if workdir is None or not summary.locked]

    def find(self, name: str = LATEST, workdir: Path | None = None) -> StoredSession:
        """`latest` or "": the newest session (of `workdir`, when given). Else an id, or a prefix that only one id has.

        Raises SessionNotFoundError, AmbiguousSessionError (both list what there is), UnreadableSessionError,
        EncryptedSessionError.
        """
        return StoredSession.read(self._folder_of(name, workdir), self._keys)

    def resume(
        self, name: str = LATEST, workdir: Path | None = None, warn: Warn | None = None
    ) -> tuple[StoredSession, SessionLog]:
        """The session that `find` finds, and its log to go on in: locked, until it is closed, before it is read.

        Raises what `find` raises, and SessionInUseError while somebody else has it open.
        """
        folder = self._folder_of(name, workdir)
        log = SessionLog.lock(folder.name, folder, warn, self._keys)
        try:
            stored = StoredSession.read(folder, self._keys)
        except BaseException:
            log.close()
            raise
        log.go_on_after(stored.header, stored.state.totals)
        return stored, log

    def _summaries(self, workdir: Path | None) -> Sequence[SessionSummary]:
        wanted = None if workdir is None else workdir.resolve()
        found = (summarise(folder, wanted, self._keys) for folder in self._folders())
        return sorted(filter(None, found), key=lambda summary: (summary.last_activity, summary.id), reverse=True)

    def _folder_of(self, name: str, workdir: Path | None) -> Path:
        if name in {"", LATEST}:
            for summary in self._summaries(workdir):
                if not summary.locked or self._opens(summary):
                    return summary.folder
            place = f"of {workdir} " if workdir is not None else ""
            raise SessionNotFoundError(f"There is no session {place}in {self.root} yet.")
        folders = list(self._folders())
        exact = [folder for folder in folders if folder.name == name]
        found = exact or _named(folders, name, self._keys)
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(sorted(folder.name for folder in found)[:_SHOWN])
            raise AmbiguousSessionError(f"{name} begins the ids of {len(found)} sessions: {ids}. Give more of it.")
        raise SessionNotFoundError(f"No session {name} in {self.root}.{self._newest()}")

    def _opens(self, summary: SessionSummary) -> bool:
        """The newest session is encrypted, and only its key tells whether it is the one that is meant: nobody guesses.

        Raises EncryptedSessionError. False for one that is damaged: nobody can mean it.
        """
        try:
            StoredSession.read(summary.folder, self._keys)
        except UnreadableSessionError:
            return False
        except EncryptedSessionError as error:
            advice = f"Session {summary.id} is the newest. To go on with another one, name it"
            raise EncryptedSessionError(f"{error}\n  {advice}: kin-nb sessions.") from error
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
    """The folders of sessions with such an id; of those that once had one, after clear or compact, when there is none."""
    if len(prefix) < SHORTEST_PREFIX:
        return []
    own = [folder for folder in folders if folder.name.startswith(prefix)]
    return own or [folder for folder in folders if _was_renamed(folder / LOG_NAME, prefix, keys)]


def _was_renamed(path: Path, prefix: str, keys: SessionKeys | None) -> bool:
    """Text inside a record has its quotes escaped, so this finds keys only. Unknown of an encrypted log without its key."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            if is_encrypted(log.readline()):
                return any(str(line.get("session_id")).startswith(prefix) for line in read_lines(path, keys))
            return log.find(f'"session_id":"{prefix}'.encode()) >= 0
    except (OSError, ValueError, SessionError):  # ValueError: an empty file cannot be mapped
        return False


def whole_output_of(stored: StoredSession, call_id: str, keys: SessionKeys | None = None) -> str:
    """All that a call of the session put out: from its file, or from its record when that has all of it.

    Raises SessionError, naming the call or the file; EncryptedSessionError.
    """
    calls = {call.id: call for turn in stored.turns for call in turn.calls}
    if call_id not in calls:
        known = ", ".join(f"{call.id} ({call.name})" for call in list(calls.values())[-_MOST_NAMED:])
        newest = f"The newest: {known}." if known else "It has none."
        raise SessionError(f"No call {call_id} in session {stored.id}. {newest}")
    name = stored.whole.get(call_id)
    return calls[call_id].output if name is None else read_output(stored.folder / LOG_NAME, name, keys)


@contextmanager
def gc_paused() -> Iterator[None]:
    """No garbage collection in here: reading a long session makes a hundred thousand objects that stay, and no garbage.

    Each collection would look at all that the process holds, the person's own data too, for nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
