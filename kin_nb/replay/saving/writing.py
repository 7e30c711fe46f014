"""Writing a session notebook: at once or not at all, and never over what only the file there, or a page that is open, holds."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kin_nb.render import one_line
from kin_nb.replay.errors import LaterFormatError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.carrying import carried_in, kept_in
from kin_nb.replay.format.embedded import KEY as SIDECAR
from kin_nb.replay.format.embedded import (
    Sidecar,
    fold,
    is_embedding,
    named_sidecar,
    session_of_sidecar,
    sidecar_name,
    split,
    texts_in,
)
from kin_nb.replay.format.in_notebook import raw_records, session_of
from kin_nb.replay.format.loading import (
    MAX_BYTES,
    import_nbformat,
    later_format,
    load_notebook,
    merge_conflict,
    read_text,
    short,
)
from kin_nb.replay.format.reading import TYPES, RecordReader
from kin_nb.replay.recording import FORMAT, SessionMeta
from kin_nb.replay.saving.own_cells import check_own_cells_stay, marked
from kin_nb.replay.saving.reduced import check_stays_reduced


def check_nothing_is_lost(nb: Any, path: Path, *, itself: bool) -> Any:
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
        raise RecordingError(
            f"{path.name} exists and is no session notebook: nothing was written. Choose another name, or remove that file."
        )
    try:
        _check_no_later_version_wrote(there)
    except LaterFormatError as error:
        raise RecordingError(
            f"{path.name} would lose what a later version wrote: {error} Nothing was written."
        ) from None
    session = session_of(there)[0]
    missing = lost(there, nb)
    if missing:
        join = (
            "kin-nb merge joins two runs of one session"
            if session == session_of(nb)[0]
            else "kin-nb diff compares both"
        )
        raise RecordingError(
            f"{path.name} holds {missing} of session {session[:8]}, which this one has not: nothing was written. "
            f"Choose another name; {join}."
        )
    check_stays_reduced(there, nb, path.name)
    check_own_cells_stay(there, nb, path.name, itself=itself)
    return there


def lost(there: Any, nb: Any) -> str:
    """The records that `there` holds, in cells or their outputs, and `nb` has not: `turns 2, 3, undo`; "" for none.

    A damaged record is known by its id: it may be replaced by a whole one. A turn is lost too where `nb` has fewer of its
    steps. Raises RecordingError where a merge left a conflict.
    """
    conflict = merge_conflict(there)
    if conflict:
        raise RecordingError(f"What it holds may be lost: nothing was written. {conflict}")
    now = {_id_of(raw): raw for _, raw in _all_records(nb)}
    turns: list[str] = []
    moves: list[str] = []
    unread: list[str] = []
    for index, raw in _all_records(there):
        known = now.get(_id_of(raw))
        if known is not None and _steps(raw) <= _steps(known):
            continue
        if not _id_of(raw):
            unread.append(f"what does not read in cell {index + 1}")
        elif raw.get("type") == "turn":
            turns.append(one_line(str(raw.get("turn")), 20))
        else:
            kind = one_line(str(raw.get("type")), 40)
            moves.append(kind if kind in TYPES else f"a record of type {kind}")
    named = [f"turn{'s' if len(turns) > 1 else ''} {', '.join(dict.fromkeys(turns))}"] if turns else []
    return ", ".join(dict.fromkeys([*named, *moves, *unread]))


def _check_no_later_version_wrote(there: Any) -> None:
    """Raises LaterFormatError, also where something else is damaged."""
    kin = there["metadata"]["kin"]
    fields = kin if isinstance(kin, dict) else {}
    if isinstance(fields.get("format"), int | float) and fields["format"] != FORMAT:
        raise LaterFormatError(later_format(fields["format"], fields.get("kin_nb")))
    meta = SessionMeta(session="none", kin_nb=short(fields.get("kin_nb", ""))[:64])
    for index, raw in raw_records(there):
        texts = {**texts_in(kin), **texts_in(there["cells"][index]["metadata"]["kin"])}
        try:
            RecordReader(meta, texts, named_sidecar(there)).read(index + 1, raw)
        except LaterFormatError:
            raise
        except RecordingError:
            continue  # a whole one may take its place


def _all_records(nb: Any) -> Iterator[tuple[int, Any]]:
    """Each record that a cell of `nb` holds, in its metadata or its outputs, unchecked, with the cell's index."""
    yield from raw_records(nb)
    indexes = {cell.get("id"): index for index, cell in enumerate(nb["cells"])}
    for index, cell in enumerate(nb["cells"]):
        yield from ((index, carried.get("record")) for carried in carried_in(cell))
    for each in kept_in(nb):
        if each["cell"] in indexes:
            yield indexes[each["cell"]], each["carried"].get("record")


def _id_of(raw: Any) -> str:
    """As the record says; of one that has none, but is of a later version, its hash."""
    if not isinstance(raw, dict):
        return ""
    named = raw.get("id") or (raw.get("sha") if raw.get("type") not in TYPES else "")
    return named if isinstance(named, str) else ""


def _steps(raw: Any) -> int:
    steps = raw.get("steps")
    return len(steps) if isinstance(steps, list) else 0


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
    lose its own changes); when another file stands there that is no session notebook; when that holds
    turns or undos that `nb` has not, or what a later version wrote; when no sidecar can have its name, or another file has it;
    and when more would be written than is read again.
    nbformat.ValidationError when `nb` is no valid notebook, OSError when it cannot be written. `made_from`: the file whose
    cells `nb` has. `replacing`: whatever stands there may go.
    """
    import_nbformat()
    import nbformat  # noqa: PLC0415  (first use)

    real = Path(os.path.realpath(path))
    if open_file is not None and real == open_file.resolve():
        raise RecordingError(
            f"{path.name} is the notebook that is open. Save the session under another name: %kin save PATH"
        )
    there, itself = None, False
    if real.exists() and not replacing:
        itself = made_from is not None and made_from.exists() and made_from.samefile(real)
        there = check_nothing_is_lost(nb, real, itself=itself)
    stored = marked(copy.deepcopy(nb) if is_stored_otherwise(nb) else nb, there if itself else None)
    beside = split(stored, real)
    fold(stored)
    nbformat.validate(stored)
    text = _readable(real, nbformat.v4.writes(stored) + "\n")  # nbformat.writes would validate again
    before = _sidecar_before(real)
    left = _needless_sidecar(before, real, beside)
    _replace([(real, text)] if beside is None else _with_sidecar(real, text, beside, before))
    # where case does not tell names apart it may be the one that was just written
    if left is not None and (beside is None or not left.samefile(beside.path)):
        left.unlink(missing_ok=True)
    return path


def is_stored_otherwise(nb: Any) -> bool:
    """Whether the file keeps the recording elsewhere than memory does: in a sidecar, or in a cell."""
    kin = nb["metadata"].get("kin")
    return (isinstance(kin, dict) and SIDECAR in kin) or any(map(is_embedding, nb["cells"]))


def _with_sidecar(path: Path, text: bytes, sidecar: Sidecar, before: Sidecar | None) -> list[tuple[Path, bytes]]:
    """What to write, in order, so that the notebook is whole at every moment, the old as the new: a text more does no harm.

    `before`: the sidecar that is named there now. Raises RecordingError when a file has its name that is no sidecar, or
    another notebook's.
    """
    name = sidecar.path.name
    held = _value(sidecar.path)
    ours = before is not None and before.path == sidecar.path
    if not ours and not session_of_sidecar(held) and _holds_something(sidecar.path):
        raise RecordingError(
            f"{name} exists and is no sidecar: nothing was written. Choose another name, or save without one."
        )
    texts = texts_in(held)
    wanted = _readable(sidecar.path, sidecar.text(sidecar.texts))
    more = texts.keys() - sidecar.texts.keys()
    if not more:
        return [(sidecar.path, wanted), (path, text)]
    if (other := _other_that_names(name, path)) is not None:
        raise RecordingError(f"{other.name} keeps its texts in {name}: nothing was written. Choose another name.")
    return [(sidecar.path, _bytes(sidecar.text({**texts, **sidecar.texts}))), (path, text), (sidecar.path, wanted)]


def _sidecar_before(path: Path) -> Sidecar | None:
    """What the notebook that is there now names as its own."""
    with suppress(UnreadableNotebookError):
        there = load_notebook(path)
        name = named_sidecar(there)
        return Sidecar(path.with_name(name), session_of(there)[0], {}) if name else None
    return None


def _needless_sidecar(before: Sidecar | None, path: Path, now: Sidecar | None) -> Path | None:
    """That of the notebook that is there now, unless another names it: what was taken out since must not stay in it.

    It has another name than `now` where the notebook was renamed. A notebook may name any file as its own: only a sidecar
    of its session goes, or what was one, by its name.
    """
    if before is None or (now is not None and before.path == now.path) or not before.path.is_file():
        return None
    held = _value(before.path)
    own = session_of_sidecar(held) == before.session if held is not None else before.path.name == sidecar_name(path)
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


def _readable(path: Path, text: str) -> bytes:
    """What to write. Raises RecordingError when it is more than is read again."""
    data = _bytes(text)
    if len(data) > MAX_BYTES:
        raise RecordingError(
            f"{path.name} would have {len(data) / 1024 / 1024:.1f} MB, and more than {MAX_BYTES / 1024 / 1024:g} MB are not read "
            "again: nothing was written. Clear the outputs of its ordinary cells first; --sidecar and --no-results make it smaller."
        )
    return data


def _bytes(text: str) -> bytes:
    """UTF-8 has no bytes for a lone surrogate; JSON has an escape, which is Python's, and all stand within strings."""
    return text.encode(errors="backslashreplace")


def _replace(files: Sequence[tuple[Path, bytes]]) -> None:
    """Replace each of the files, in order and at once, when all of them are on the disk."""
    written: list[Path] = []
    try:
        for path, data in files:
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".kin-", suffix=".tmp")
            written.append(Path(temporary))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            written[-1].chmod(_mode(path))
        for (path, _), new in zip(files, written, strict=True):
            new.replace(path)
    finally:
        for new in written:
            new.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
