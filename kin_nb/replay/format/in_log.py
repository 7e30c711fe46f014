"""A session of the log as a recording: for a notebook that never had one, or lost it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.records import UndoRecord
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.recording import Recording, SessionMeta

if TYPE_CHECKING:
    from kin_nb.core.session.store import StoredSession


def recording_from_log(session: str, folder: Path) -> Recording:
    """Of the session whose id begins with `session`, for a notebook in `folder`.

    Raises ReplayError when no session, or more than one, has such an id, when its log cannot be used, or when the settings
    that say where sessions are kept do not load.
    """
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (only when a session is named)
    from kin_nb.core.session.store import SessionStore  # noqa: PLC0415  (as above)

    try:
        store = SessionStore.configured(KinConfig.load().session_logging)
        if not session:  # to the store that is the newest
            raise ReplayError(f"No session is named. They are in {store.root}: kin-nb sessions lists them.")
        stored = store.find(session)
    except (ConfigError, SessionError) as error:
        raise ReplayError(str(error)) from error
    if not stored.turns:
        raise ReplayError(f"Session {stored.id} has no turns.")
    return logged(stored, folder)


def logged(stored: StoredSession, folder: Path) -> Recording:
    """`stored` as the recording of a notebook in `folder`. Raises ReplayError for records that do not belong together."""
    try:
        undos = tuple(UndoRecord.model_validate(line["record"]) for line in stored.lines if line.get("type") == "undo")
        meta = SessionMeta.of_session(stored.header, folder)
        return Recording(meta.session, stored.turns, meta, undos=undos)
    except (LookupError, TypeError, ValueError) as error:
        what = f"is not a log that this version can read ({type(error).__name__})"
        raise ReplayError(f"{stored.folder / 'log.jsonl'} {what}.") from error
