"""Find a recording by the name that the user gives: a notebook's path, or a session id in the log; and combine the two."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.records import SessionRecord
from kin_nb.core.session.errors import SessionError
from kin_nb.replay.book import Book, sort_records
from kin_nb.replay.errors import RecordingError, ReplayError, UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import claimed_identity
from kin_nb.replay.format.notebook_reader import describe_merge_conflict, load_notebook
from kin_nb.replay.recording import Recording, SessionMeta

if TYPE_CHECKING:
    from kin_nb.core.session.store import StoredSession


@dataclass(frozen=True)
class RecordingSource:
    """A recording, and the notebook `nb` with its book; both None for a session of the log."""

    recording: Recording
    nb: Any = None
    book: Book | None = None

    def with_notebook(self, path: Path) -> RecordingSource:
        """Add the cells and records of the notebook at `path`, if it belongs to this session or a parent session.

        A damaged notebook counts too, for the user's cells in it. Raises RecordingError for an unfinished merge.
        """
        try:
            nb = load_notebook(path)
        except UnreadableNotebookError:
            return self
        ours = self.recording
        try:
            book = Book.collect(nb)
        except RecordingError as error:
            if claimed_identity(nb)[0] != ours.session:
                return self
            if describe_merge_conflict(nb):
                raise RecordingError(f"{path.name}: {error}") from error
            return replace(self, nb=nb)
        if claimed_identity(nb)[0] != ours.session and book.records.keys().isdisjoint(ours.shas):
            return self
        joined = Recording(ours.meta, combine_records(book.records.values(), ours.records), book.unknown_records)
        if book.records:
            joined = replace(joined, session_names=book.recording.session_names)
        return replace(self, nb=nb, book=book, recording=joined)


def combine_records(held: Iterable[SessionRecord], made: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """Combine the records of a notebook (`held`) and of a session (`made`), each id once, sorted by `seq`.

    Of two copies the notebook's is used: a save may have redacted it, and a later save must not bring the text back.
    """
    return sort_records([*made, *held])


def resolve_source(name: str, folder: Path) -> RecordingSource:
    """Read the recording of the file when `name` ends in .ipynb, else of the session whose id begins with it.

    The workspace's path is relative to `folder`. Raises ReplayError; of a file it begins with the file's name.
    """
    if not name.endswith(".ipynb"):
        return session_from_log(name, folder)
    path = Path(name)
    nb = load_notebook(path)
    try:
        book = Book.collect(nb)
        return RecordingSource(relocate(book.recording, path.resolve().parent, folder), nb, book)
    except RecordingError as error:
        raise type(error)(f"{path.name}: {error}") from error


def session_from_log(session: str, folder: Path) -> RecordingSource:
    """Read from the log the session whose id begins with `session`, for a notebook in `folder`.

    Raises ReplayError when no session, or more than one, has such an id, when its log cannot be used, or when the settings
    that say where sessions are kept do not load.
    """
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (only when a session is named)
    from kin_nb.core.session.store import SessionStore  # noqa: PLC0415  (as above)

    try:
        store = SessionStore.from_config(KinConfig.load().session_logging)
        if not session:  # the store takes "" as the newest session
            raise ReplayError(f"No session given. Sessions are in {store.root}.\nList them: kin-nb sessions")
        stored = store.find(session)
    except (SessionError, ConfigError) as error:
        raise ReplayError(str(error)) from None
    if not stored.turns:
        raise ReplayError(f"Session {stored.id} has no turns.")
    return _logged(stored, folder)


def _logged(stored: StoredSession, folder: Path) -> RecordingSource:
    try:
        meta = SessionMeta.from_header(stored.header, folder.resolve())
        recording = Recording(meta, stored.records)
    except (LookupError, TypeError, ValueError) as error:
        what = f"is not a log that this version can read ({type(error).__name__})"
        raise ReplayError(f"{stored.folder / 'log.jsonl'} {what}.") from error
    return RecordingSource(recording)


def relocate(recording: Recording, old: Path, new: Path) -> Recording:
    """Rewrite the workspace's path, which is relative to the notebook's folder, from folder `old` to `new`, both absolute."""
    workspace = recording.meta.workspace
    if old == new or not workspace.path:
        return recording
    path = Path(os.path.relpath(old / workspace.path, new)).as_posix()
    meta = recording.meta.model_copy(update={"workspace": workspace.model_copy(update={"path": path})})
    return replace(recording, meta=meta, saved_shas=None)
