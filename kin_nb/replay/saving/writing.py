"""Writing a session notebook: at once or not at all, and never over what only the file there holds."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kin_nb.replay.errors import LaterFormatError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.embedded import fold, is_embedding
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import import_nbformat, load_notebook, read_text
from kin_nb.replay.format.sidecar import KEY as SIDECAR
from kin_nb.replay.format.sidecar import Sidecar, named_sidecar, sidecar_name, split, texts_in
from kin_nb.replay.saving.lost import lost


def write_notebook(
    nb: Any, path: Path, *, open_file: Path | None = None, in_place: bool = False, replacing: bool = False
) -> Path:
    """Write `nb` to `path`, with its sidecar where it names one; returns `path`. An existing file keeps its mode, a link stays one.

    Raises RecordingError when `path` is `open_file`, the notebook that a front end has open (it would overwrite ours or
    lose its own changes); when another file stands there that is no session notebook, but for `in_place`; when that holds
    turns or undos that `nb` has not, or what a later version wrote; and when no sidecar can have its name.
    nbformat.ValidationError when `nb` is no valid notebook, OSError when it cannot be written. `replacing`: whatever
    stands there may go.
    """
    import_nbformat()
    import nbformat  # noqa: PLC0415  (first use)

    real = Path(os.path.realpath(path))
    if open_file is not None and real == open_file.resolve():
        raise RecordingError(
            f"{path.name} is the notebook that is open. Save the session under another name: %kin save PATH"
        )
    if real.exists() and not replacing:
        _check_nothing_is_lost(nb, real, in_place=in_place)
    stored = copy.deepcopy(nb) if is_stored_otherwise(nb) else nb
    beside = split(stored, real)
    fold(stored)
    nbformat.validate(stored)
    text = nbformat.v4.writes(stored) + "\n"  # nbformat.writes would validate again
    left = _needless_sidecar(real) if beside is None else None
    _replace([(real, text)] if beside is None else _with_sidecar(real, text, beside))
    if left is not None:
        left.unlink(missing_ok=True)
    return path


def is_stored_otherwise(nb: Any) -> bool:
    """Whether the file keeps the recording elsewhere than memory does: in a sidecar, or in a cell."""
    kin = nb["metadata"].get("kin")
    return (isinstance(kin, dict) and SIDECAR in kin) or any(map(is_embedding, nb["cells"]))


def _with_sidecar(path: Path, text: str, sidecar: Sidecar) -> list[tuple[Path, str]]:
    """What to write, in order, so that the notebook is whole at every moment, the old as the new: a text more does no harm."""
    try:
        before = texts_in(json.loads(read_text(sidecar.path)))
    except (UnreadableNotebookError, ValueError, RecursionError):
        before = {}
    files = [(sidecar.path, sidecar.text({**before, **sidecar.texts})), (path, text)]
    more = before.keys() - sidecar.texts.keys()
    if more and (other := _other_that_names(sidecar.path.name, path)) is not None:
        raise RecordingError(
            f"{other.name} keeps its texts in {sidecar.path.name}: nothing was written. Choose another name."
        )
    return [*files, (sidecar.path, sidecar.text(sidecar.texts))] if more else files


def _needless_sidecar(path: Path) -> Path | None:
    """That of the notebook that is there now, unless another names it: what was taken out since must not stay in it."""
    with suppress(UnreadableNotebookError):
        name = named_sidecar(load_notebook(path)) if path.exists() else ""
        if name == sidecar_name(path) and _other_that_names(name, path) is None:
            return path.with_name(name)
    return None


def _other_that_names(sidecar: str, path: Path) -> Path | None:
    """Another notebook beside `path` whose texts are there too, as `NAME.ipynb`'s and `NAME.kin.ipynb`'s are, and a copy's."""
    written = {json.dumps(sidecar).encode(), json.dumps(sidecar, ensure_ascii=False).encode()}
    for other in sorted(path.parent.glob("*.ipynb")):
        if other == path or not other.is_file():
            continue
        try:
            text = other.read_bytes()
        except OSError:
            return other  # it may
        if any(name in text for name in written):
            return other
    return None


def _replace(files: Sequence[tuple[Path, str]]) -> None:
    """Replace each of the files, in order and at once, when all of them are on the disk.

    Lone surrogates within JSON strings become escapes.
    """
    written: list[Path] = []
    try:
        for path, text in files:
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".kin-", suffix=".tmp")
            written.append(Path(temporary))
            with os.fdopen(handle, "wb") as file:
                # UTF-8 has no bytes for a lone surrogate; JSON has an escape, which is Python's, and all stand within strings
                file.write(text.encode(errors="backslashreplace"))
            written[-1].chmod(_mode(path))
        for (path, _), new in zip(files, written, strict=True):
            new.replace(path)
    finally:
        for new in written:
            new.unlink(missing_ok=True)


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
    ours = read_recording(nb)
    missing = lost(held, ours)
    if missing:
        join = (
            "kin-nb merge joins two runs of one session"
            if held.session == ours.session
            else "kin-nb diff compares both"
        )
        raise RecordingError(
            f"{path.name} holds {missing} of session {held.session[:8]}, which this one has not: nothing was written. "
            f"Choose another name; {join}."
        )


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
