"""Writing a session notebook: at once or not at all, and never over what only the file there holds."""

from __future__ import annotations

import copy
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from kin_nb.core.session.records import TurnRecord
from kin_nb.replay.errors import LaterFormatError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.embedded import fold, is_embedding
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.format.sidecar import KEY as SIDECAR
from kin_nb.replay.format.sidecar import split

_SURROGATE = re.compile("[\ud800-\udfff]")


def write_notebook(
    nb: Any, path: Path, *, open_file: Path | None = None, in_place: bool = False, replacing: bool = False
) -> Path:
    """Write `nb` to `path`, with its sidecar where it names one; returns `path`. An existing file keeps its mode.

    Raises RecordingError when `path` is `open_file`, the notebook that a front end has open (it would overwrite ours or
    lose its own changes); when another file stands there that is no session notebook, but for `in_place`; and when that
    holds turns that `nb` has not, or what a later version wrote. nbformat.ValidationError when `nb` is no valid notebook,
    OSError when it cannot be written. `replacing`: whatever stands there may go.
    """
    import nbformat  # noqa: PLC0415  (first use)

    if open_file is not None and path.resolve() == open_file.resolve():
        raise RecordingError(
            f"{path.name} is the notebook that is open. Save the session under another name: %kin save PATH"
        )
    if path.exists() and not replacing:
        _check_nothing_is_lost(nb, path, in_place=in_place)
    stored = copy.deepcopy(nb) if is_stored_otherwise(nb) else nb
    beside = split(stored, path)
    fold(stored)
    nbformat.validate(stored)
    text = nbformat.writes(stored, version=nbformat.NO_CONVERT) + "\n"
    if beside is not None:
        write_text(path.with_name(beside[0]), beside[1])
    write_text(path, text)
    return path


def is_stored_otherwise(nb: Any) -> bool:
    """Whether the file keeps the recording elsewhere than memory does: in a sidecar, or in a cell."""
    kin = nb["metadata"].get("kin")
    return (isinstance(kin, dict) and SIDECAR in kin) or any(map(is_embedding, nb["cells"]))


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path`, at once. Lone surrogates within JSON strings become escapes."""
    # UTF-8 has no bytes for a lone surrogate; JSON has an escape, and all of these stand within strings
    data = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _check_nothing_is_lost(nb: Any, path: Path, *, in_place: bool) -> None:
    """A damaged recording may be replaced: that is its repair."""
    if path.is_file() and not path.stat().st_size:
        return  # an empty file is nobody's work
    try:
        there = load_notebook(path)
    except UnreadableNotebookError:
        there = None
    if there is None or "kin" not in there["metadata"]:
        if in_place and there is not None:
            return
        raise RecordingError(
            f"{path.name} exists and is no session notebook: nothing was written. Choose another name, or remove that file."
        )
    try:
        held = read_recording(there)
    except LaterFormatError as error:
        raise RecordingError(
            f"{path.name} would lose what a later version wrote: {error} Nothing was written."
        ) from None
    except RecordingError:
        return
    ours = {_identity(turn) for turn in read_recording(nb).turns}
    lost = [str(turn.turn) for turn in held.turns if _identity(turn) not in ours]
    if lost:
        raise RecordingError(
            f"{path.name} holds {'turn' if len(lost) == 1 else 'turns'} {', '.join(lost)} of session {held.session[:8]}, "
            "which this one has not: nothing was written. Choose another name; kin-nb merge joins two runs of one session."
        )


def _identity(turn: TurnRecord) -> tuple[int, str]:
    """What redaction leaves as it is."""
    return turn.turn, turn.steps[0].fingerprint if turn.steps else turn.outcome


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
