"""Write a session notebook: completely or not at all, and never over content that only the existing file or an open page has."""

from __future__ import annotations

import copy
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from kin_nb.core.safe_fs import replace_paths
from kin_nb.replay.errors import RecordingError, UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import claimed_identity
from kin_nb.replay.format.notebook_reader import MAX_BYTES, import_nbformat, load_notebook, read_text
from kin_nb.replay.format.storage import SIDECAR_KEY as SIDECAR
from kin_nb.replay.format.storage import (
    Sidecar,
    claimed_session,
    claimed_sidecar,
    detach_sidecar,
    embed,
    is_recording_cell,
    sidecar_name,
    stored_texts,
)
from kin_nb.replay.saving.overwrite_guard import check_overwrite
from kin_nb.replay.saving.user_cells import stamp


def write_notebook(
    nb: Any,
    path: Path,
    *,
    open_file: Path | None = None,
    made_from: Path | None = None,
    replacing: bool = False,
) -> Path:
    """Write `nb` to `path`, with its sidecar where it names one; returns `path`. An existing file keeps its mode, a link stays one.

    Raises RecordingError when `path` is `open_file`, the notebook that a front end has open (it would overwrite ours or
    lose its own changes); when the existing file is not a session notebook, holds turns or undos that `nb` lacks, or was
    written by a later version; when the sidecar's name is impossible or belongs to another file; and when the result would be
    too large to read again.
    Raises nbformat.ValidationError when `nb` is not a valid notebook, OSError when it cannot be written. `made_from`: the file
    whose cells `nb` has. `replacing`: any file may be replaced.
    """
    import_nbformat()
    import nbformat  # noqa: PLC0415  (first use)

    real = Path(os.path.realpath(path))
    if open_file is not None and real == open_file.resolve():
        raise RecordingError(f"Not saved: {path.name} is the open notebook.\nUse another name: %kin save PATH")
    there, itself = None, False
    if real.exists() and not replacing:
        itself = made_from is not None and made_from.exists() and made_from.samefile(real)
        there = check_overwrite(nb, real, itself=itself)
    stored = stamp(copy.deepcopy(nb) if has_separate_storage(nb) else nb, there if itself else None)
    sidecar_file = detach_sidecar(stored, real)
    embed(stored)
    nbformat.validate(stored)
    text = _readable(real, nbformat.v4.writes(stored) + "\n")  # nbformat.writes would validate again
    before = _sidecar_before(real)
    left = _needless_sidecar(before, real, sidecar_file)
    replace_paths([(real, text)] if sidecar_file is None else _with_sidecar(real, text, sidecar_file, before))
    # where case does not tell names apart it may be the one that was just written
    if left is not None and (sidecar_file is None or not left.samefile(sidecar_file.path)):
        left.unlink(missing_ok=True)
    return path


def has_separate_storage(nb: Any) -> bool:
    """Whether the file stores the recording outside the notebook's metadata: in a sidecar, or in a cell."""
    kin = nb["metadata"].get("kin")
    return (isinstance(kin, dict) and SIDECAR in kin) or any(map(is_recording_cell, nb["cells"]))


def _with_sidecar(path: Path, text: bytes, sidecar: Sidecar, before: Sidecar | None) -> list[tuple[Path, bytes]]:
    """Return the files to write, in an order that keeps the notebook complete at every moment (extra texts do no harm).

    `before`: the sidecar that the notebook on disk names. Raises RecordingError when a file with the sidecar's name is not a
    sidecar, or is another notebook's.
    """
    name = sidecar.path.name
    held = _value(sidecar.path)
    ours = before is not None and before.path == sidecar.path
    if not ours and not claimed_session(held) and _holds_something(sidecar.path):
        raise RecordingError(
            f"Not saved: {name} exists and is not a sidecar file.\nChoose another name, or save without --sidecar."
        )
    texts = stored_texts(held)
    wanted = _readable(sidecar.path, sidecar.text(sidecar.texts))
    more = texts.keys() - sidecar.texts.keys()
    if not more:
        return [(sidecar.path, wanted), (path, text)]
    if (other := _other_that_names(name, path)) is not None:
        raise RecordingError(f"Not saved: {other.name} stores its texts in {name}.\nChoose another name.")
    return [(sidecar.path, _bytes(sidecar.text({**texts, **sidecar.texts}))), (path, text), (sidecar.path, wanted)]


def _sidecar_before(path: Path) -> Sidecar | None:
    """Return the sidecar that the notebook on disk names as its own."""
    with suppress(UnreadableNotebookError):
        there = load_notebook(path)
        name = claimed_sidecar(there)
        return Sidecar(path.with_name(name), claimed_identity(there)[0], {}) if name else None
    return None


def _needless_sidecar(before: Sidecar | None, path: Path, now: Sidecar | None) -> Path | None:
    """Return the sidecar to delete: the old one, unless another notebook names it. Text that was redacted must not stay in it.

    Its name differs from that of `now` when the notebook was renamed. A notebook may name any file as its own, so only a
    sidecar of the same session is deleted, or a file whose name says that it was one.
    """
    if before is None or (now is not None and before.path == now.path) or not before.path.is_file():
        return None
    held = _value(before.path)
    own = claimed_session(held) == before.session if held is not None else before.path.name == sidecar_name(path)
    return before.path if own and before.session and _other_that_names(before.path.name, path) is None else None


def _value(path: Path) -> Any:
    """The JSON value of a file, None when it cannot be read."""
    try:
        return json.loads(read_text(path))
    except (UnreadableNotebookError, ValueError, RecursionError):
        return None


def _holds_something(path: Path) -> bool:
    return path.exists() and not (path.is_file() and not path.stat().st_size)


def _other_that_names(sidecar: str, path: Path) -> Path | None:
    """Return another notebook in the folder of `path` that uses this sidecar, such as a copy."""
    written = {json.dumps(sidecar).encode(), json.dumps(sidecar, ensure_ascii=False).encode()}
    for other in sorted(path.parent.glob("*.ipynb")):
        if other == path or not other.is_file():
            continue
        try:
            text = other.read_bytes()
        except OSError:
            return other  # it may use the sidecar
        if any(name in text for name in written):
            return other
    return None


def _readable(path: Path, text: str) -> bytes:
    """Return the bytes to write. Raises RecordingError when they are too many to be read again."""
    data = _bytes(text)
    if len(data) > MAX_BYTES:
        raise RecordingError(
            f"Not saved: {path.name} would have {len(data) / 1024 / 1024:.1f} MB; the limit is {MAX_BYTES / 1024 / 1024:g} MB.\n"
            "Clear the outputs of ordinary cells, or save with --sidecar or --no-results."
        )
    return data


def _bytes(text: str) -> bytes:
    """Encode JSON as UTF-8; lone surrogates, which occur only in strings and have no UTF-8 form, become JSON escapes."""
    return text.encode(errors="backslashreplace")
