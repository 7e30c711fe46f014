"""What stands where a notebook is to be written: whether it may go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kin_nb.render import one_line
from kin_nb.replay.errors import LaterFormatError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.carrying import carried_in, kept_in
from kin_nb.replay.format.conflicted import merge_conflict
from kin_nb.replay.format.in_notebook import raw_records, session_of
from kin_nb.replay.format.later import later_format, short
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.format.reading import TYPES, RecordReader
from kin_nb.replay.format.sidecar import named_sidecar, texts_in
from kin_nb.replay.recording import FORMAT, SessionMeta
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
