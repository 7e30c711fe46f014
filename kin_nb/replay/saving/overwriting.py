"""What stands where a notebook is to be written: whether it may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kin_nb.replay.errors import LaterFormatError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.conflicted import merge_conflict
from kin_nb.replay.format.in_notebook import read_recording, session_of
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.lost import lost, lost_where_damaged
from kin_nb.replay.saving.own_cells import check_own_cells_stay


def check_nothing_is_lost(nb: Any, path: Path, *, in_place: bool, itself: bool) -> Any:
    """The notebook that `nb` may replace, None for an empty file. Raises RecordingError when it may not.

    `itself`: `nb` was made from what stands there.

    A damaged recording of the same session may be replaced by one that has all of it: that is its repair.
    """
    if path.is_file() and not path.stat().st_size:
        return None  # an empty file is nobody's work
    try:
        there = load_notebook(path)
    except UnreadableNotebookError:
        there = None
    if there is None or "kin" not in there["metadata"]:
        if in_place and there is not None:
            return there
        raise RecordingError(
            f"{path.name} exists and is no session notebook: nothing was written. Choose another name, or remove that file."
        )
    ours = read_recording(nb)
    session = session_of(there)[0]
    try:
        missing = _missing(there, ours, session)
    except LaterFormatError as error:
        raise RecordingError(
            f"{path.name} would lose what a later version wrote: {error} Nothing was written."
        ) from None
    except RecordingError as error:
        raise RecordingError(
            f"What {path.name} holds does not read, and may be lost: nothing was written. Choose another name. {error}"
        ) from None
    if missing:
        join = "kin-nb merge joins two runs of one session" if session == ours.session else "kin-nb diff compares both"
        raise RecordingError(
            f"{path.name} holds {missing} of session {session[:8]}, which this one has not: nothing was written. "
            f"Choose another name; {join}."
        )
    check_own_cells_stay(there, nb, path.name, itself=itself)
    return there


def _missing(there: Any, ours: Recording, session: str) -> str:
    """What would be lost; "" for nothing. Raises RecordingError for what is damaged and of another session, or unmerged."""
    try:
        return lost(read_recording(there), ours)
    except LaterFormatError:
        raise
    except RecordingError:
        if session != ours.session or merge_conflict(there):
            raise
    return lost_where_damaged(there, ours)
