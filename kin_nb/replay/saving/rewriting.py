"""A session of the log as a recording: for a notebook that never had one, or lost it."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.paths import kin_home
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.log import fold, read_lines
from kin_nb.core.session.records import UndoRecord
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.recording import Recording, SessionMeta


def recording_from_log(session: str, folder: Path) -> Recording:
    """Of the session whose id begins with `session`, for a notebook in `folder`.

    Raises ReplayError when no session, or more than one, has such an id, or when its log cannot be used.
    """
    path = _log_of(session)
    try:
        lines = list(read_lines(path))
        header, turns = fold(lines)
        undos = tuple(UndoRecord.model_validate(line["record"]) for line in lines if line.get("type") == "undo")
        meta = SessionMeta.of_session(header, folder)
        recording = Recording(meta.session, tuple(turns), meta, undos=undos)
    except SessionError as error:
        raise ReplayError(str(error)) from error
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise ReplayError(f"{path} is not a log that this version can read ({type(error).__name__}).") from error
    if not turns:
        raise ReplayError(f"Session {meta.session} has no turns.")
    return recording


def _log_of(session: str) -> Path:
    folder = kin_home() / "sessions"
    found = (
        sorted(path for path in folder.glob("*/log.jsonl") if path.parent.name.startswith(session)) if session else []
    )
    if len(found) == 1:
        return found[0]
    if not found:
        raise ReplayError(f"No session {session} in {folder}.")
    raise ReplayError(f"{session} begins the ids of {len(found)} sessions: {', '.join(p.parent.name for p in found)}.")
