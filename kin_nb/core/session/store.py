"""The store: every session under one folder, listed without reading long logs, and found by the beginning of its id."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.records import Moved, SessionRecord, TurnRecord
from kin_nb.core.session.encryption import is_encrypted
from kin_nb.core.session.errors import (
    AmbiguousSessionError,
    EncryptedSessionError,
    LogRecordError,
    SessionError,
    SessionNotFoundError,
    UnreadableSessionError,
)
from kin_nb.core.session.lineage import with_ids
from kin_nb.core.session.log import INCOMPLETE_NAME, LOG_NAME, SessionLog, Warn, fold, read_lines, sessions_root
from kin_nb.core.session.session_keys import SessionKeys
from kin_nb.core.session.summary import SessionSummary, local_time, summarise
from kin_nb.core.session.totals import Totals

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig

LATEST = "latest"
SHORTEST_PREFIX = 4
"""Characters of an id that name a session, at the least."""
_SHOWN = 5


@dataclass(frozen=True)
class StoredSession:
    """A session as its log tells it. `id` names the folder; `session_id` is the newest, after clear and compact.

    `started`, `last_activity`: when the first and the last line were written, None where the log does not say. `whole`: the
    names of the files that have all of an output, by the call's id (whole_outputs.py). `lost_after`: numbers of the turns (0:
    before the first) after which records are missing, because they could not be written.
    """

    id: str
    folder: Path
    header: dict[str, Any]
    records: tuple[SessionRecord, ...]
    """All that the session is made of, in the order in which it happened."""
    session_id: str
    started: datetime | None
    last_activity: datetime | None
    whole: Mapping[str, str] = field(default_factory=dict)
    lost_after: frozenset[int] = frozenset()
    lines: Sequence[dict[str, Any]] = field(default=(), repr=False, compare=False)
    """Of the log, all of them: a long one is parsed once."""

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        return tuple(record for record in self.records if isinstance(record, TurnRecord))

    @property
    def moves(self) -> tuple[Moved, ...]:
        """What moved the conversation between its turns, oldest first."""
        return tuple(record for record in self.records if isinstance(record, Moved))

    @property
    def taken_over(self) -> frozenset[str]:
        """The ids of records that it continued from: a notebook's, which may have more in them."""
        lines = (line for line in self.lines if line.get("type") == "continued")
        return frozenset(str(record.get("id")) for line in lines for record in line["records"])

    @classmethod
    def read(cls, folder: Path, keys: SessionKeys | None = None) -> StoredSession:
        """Raises UnreadableSessionError, naming the log and the record in it, and EncryptedSessionError."""
        path = folder / LOG_NAME
        try:
            lines = list(read_lines(path, keys))
            header, records = fold(lines)
        except OSError as error:
            raise UnreadableSessionError(path, f"cannot be read ({error.strerror})") from error
        except LogRecordError as error:
            raise UnreadableSessionError(path, str(error)) from error
        if not header:
            raise UnreadableSessionError(path, "does not begin with a session's header")
        names = [str(line.get("session_id")) for line in lines if line.get("type") == "renamed"]
        return cls(
            id=folder.name,
            folder=folder,
            header=header,
            records=tuple(_with_ids(records, folder.name)),
            session_id=names[-1] if names else str(header.get("session") or folder.name),
            started=_time_of(header),
            last_activity=_time_of(lines[-1]),
            lines=lines,
            whole={str(line["call"]["id"]): str(line["whole"]) for line in lines if _names_an_output(line)},
            lost_after=_lost_after(lines, incomplete=(folder / INCOMPLETE_NAME).exists()),
        )


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
        log.go_on_after(stored.header, Totals.of(stored.records))
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


def _with_ids(records: Sequence[SessionRecord], session: str) -> Sequence[SessionRecord]:
    """Give ids to turns that were logged without."""
    turns = [record for record in records if isinstance(record, TurnRecord)]
    if all(turn.id for turn in turns):
        return records
    named = iter(with_ids(turns, session))
    return [next(named) if isinstance(record, TurnRecord) else record for record in records]


def _names_an_output(line: dict[str, Any]) -> bool:
    return (
        line.get("type") == "result" and "whole" in line and isinstance(line.get("call"), dict) and "id" in line["call"]
    )


def _lost_after(lines: Sequence[dict[str, Any]], *, incomplete: bool) -> frozenset[int]:
    """`lines` make turns (log.fold). `incomplete`: records are missing after the last one, too."""
    turn, found = 0, set()
    for line in lines:
        if line.get("type") == "turn":
            turn = line["record"]["turn"]
        elif line.get("type") == "continued":
            turn = max((record.get("turn", 0) for record in line["records"]), default=turn)
        elif line.get("type") == "resumed" and line.get("incomplete"):
            found.add(turn)
    return frozenset({*found, turn} if incomplete else found)


def _time_of(line: dict[str, Any]) -> datetime | None:
    try:
        return local_time(line["time"])
    except (LookupError, TypeError, ValueError, OverflowError, OSError):
        return None
