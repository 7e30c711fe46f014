"""A recording as a person names it: a session notebook's path, or the id of a session in the log."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from kin_nb.replay.errors import RecordingError, UnreadableNotebookError
from kin_nb.replay.format.conflicted import merge_conflict
from kin_nb.replay.format.in_log import recording_from_log
from kin_nb.replay.format.in_notebook import read_recording, session_of
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.lost import lost


def named_recording(name: str, folder: Path) -> tuple[Recording, Any]:
    """(recording, notebook): of the file when `name` ends in .ipynb; else of the session whose id begins with it, and None.

    The workspace's path is relative to `folder`. Raises ReplayError; of a file it begins with the file's name.
    """
    if not name.endswith(".ipynb"):
        return recording_from_log(name, folder), None
    path = Path(name)
    nb = load_notebook(path)
    try:
        return in_folder(read_recording(nb), path.resolve().parent, folder), nb
    except RecordingError as error:
        raise RecordingError(f"{path.name}: {error}") from error


def notebook_of(recording: Recording, path: Path) -> Any:
    """The session notebook at `path` of this session, or of one that it goes on from; None where none is.

    One that is damaged counts too: its cells are a person's. Raises RecordingError for one that a merge left unfinished.
    """
    try:
        nb = load_notebook(path)
    except UnreadableNotebookError:
        return None
    try:
        return None if lost(read_recording(nb), recording) else nb
    except RecordingError as error:
        if session_of(nb)[0] != recording.session:
            return None
        if merge_conflict(nb):
            raise RecordingError(f"{path.name}: {error}") from error
        return nb


def in_folder(recording: Recording, old: Path, new: Path) -> Recording:
    """For a notebook in `new` in place of one in `old`, both absolute: the workspace's path is relative to it."""
    workspace = recording.meta.workspace
    if old == new or not workspace.path:
        return recording
    path = Path(os.path.relpath(old / workspace.path, new)).as_posix()
    meta = recording.meta.model_copy(update={"workspace": workspace.model_copy(update={"path": path})})
    return replace(recording, meta=meta)
