"""Session notebooks written anew: from the log, for one that lost its recording, and by a version that draws otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.paths import kin_home
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.log import fold, read_lines
from kin_nb.core.session.records import UndoRecord
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format import read_recording
from kin_nb.replay.in_outputs import recording_in_outputs
from kin_nb.replay.loading import as_node, load_notebook
from kin_nb.replay.privacy import Cleaner, clean_notebook, without_results
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.save_options import SaveOptions
from kin_nb.replay.saving import empty_notebook, session_notebook
from kin_nb.replay.writing import write_notebook


@dataclass(frozen=True)
class Written:
    """`name`: the recording's. `removed`: what was taken out, a line for each place."""

    name: str
    turns: int
    removed: tuple[str, ...] = ()


def write_anew(
    source: str, path: Path, options: SaveOptions, secrets: Callable[[str], str] = str, *, from_outputs: bool = False
) -> Written:
    """Write the session notebook `path`: of a logged session (the beginning of its id), or of a session notebook.

    With `options.in_place` a logged session's records go into the notebook that is at `path`. `from_outputs`: the
    recording is taken from what a front end saved, the outputs. Raises ReplayError, OSError.
    """
    nb, recording = _source(source, path, options, from_outputs=from_outputs)
    cleaner = Cleaner(options.redact, secrets)
    recording = clean_notebook(nb, recording, cleaner)
    if not options.results:
        recording = without_results(recording)
    made = session_notebook(recording, source_nb=nb, options=options)
    write_notebook(made, path, in_place=options.in_place)
    recording = read_recording(made)
    return Written(recording.name, len(recording.turns), tuple(cleaner.report()))


def _source(source: str, path: Path, options: SaveOptions, *, from_outputs: bool) -> tuple[Any, Recording]:
    if Path(source).suffix == ".ipynb":
        nb = as_node(load_notebook(Path(source)))
        return nb, recording_in_outputs(nb) if from_outputs else read_recording(nb)
    recording = recording_from_log(source, path.parent)
    return as_node(load_notebook(path)) if options.in_place else empty_notebook(), recording


def notebook_from_log(session: str, folder: Path) -> tuple[Any, str]:
    """(notebook, recording's name) of the session whose id begins with `session`, for a file in `folder`.

    Raises as `recording_from_log`.
    """
    nb = session_notebook(recording_from_log(session, folder))
    return nb, read_recording(nb).name


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


def redrawn(path: Path) -> tuple[Any, str]:
    """(the session notebook at `path` with outputs as this version draws them, its recording's name)."""
    nb = load_notebook(path)
    recording = read_recording(nb)
    return session_notebook(recording, source_nb=nb), recording.name


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
