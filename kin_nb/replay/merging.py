"""Merge two session notebooks that continued from the same one: the union of their records by id, and of their cells.

No text that the user wrote in a cell is lost."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kin_nb.core.records import SessionRecord
from kin_nb.core.text import counted
from kin_nb.replay.binding_cells import remove_binding_cells
from kin_nb.replay.book import Book, sort_records
from kin_nb.replay.errors import RecordingError, ReplayError
from kin_nb.replay.format.notebook_codec import RECORDS_KEY, first_differing_field, read_saved
from kin_nb.replay.format.notebook_reader import as_node
from kin_nb.replay.format.output_records import raw_output_records
from kin_nb.replay.format.storage import SIDECAR_KEY as SIDECAR
from kin_nb.replay.format.storage import is_recording_cell
from kin_nb.replay.recording import Recording, SessionMeta, record_label
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.prompt_cells import describe_unanswered
from kin_nb.replay.saving.sources import relocate
from kin_nb.replay.saving.user_cells import common_stamps, drop_commands, with_stamps

MergeKind = Literal["same", "a", "b", "fork"]


@dataclass(frozen=True)
class MergedRecording:
    """`kind`: which side has new records: neither, one, or both. `head`: the last record of the conversation.

    Of two equally late records, A's is the head here; in a notebook, the one in the upper cell.
    """

    recording: Recording
    kind: MergeKind
    head: SessionRecord | None


def merge_recordings(base: Recording, a: Recording, b: Recording) -> MergedRecording:
    """Combine the records of A and B. What each added to BASE becomes a branch; the conversation continues from the last record.

    A record that one side removed since BASE is removed. Raises ReplayError, naming turn and field, when records of one id differ.
    """
    _check_agree("A", a, "BASE", base)
    _check_agree("B", b, "BASE", base)
    _check_agree("B", b, "A", a)
    ours, theirs, was = ({record.id for record in each.records} for each in (a, b, base))
    removed = was - (ours & theirs)
    records = sort_records(record for record in (*a.records, *b.records) if record.id not in removed)
    new_a, new_b = ours - was - theirs, theirs - was - ours
    how: MergeKind = "fork" if new_a and new_b else "a" if new_a else "b" if new_b else "same"
    others = tuple(dict.fromkeys((*a.unknown_records, *b.unknown_records)))
    names = {**b.session_names, **a.session_names}
    head = max((each for each in records if each.id not in names), key=lambda record: record.seq, default=None)
    return MergedRecording(Recording(_meta(base, a, b), records, others, session_names=names), how, head)


def _check_agree(side: str, ours: Recording, other: str, theirs: Recording) -> None:
    known = {record.id: record for record in theirs.records}
    for record in ours.records:
        before = known.get(record.id, record)
        if _comparable(before) != _comparable(record):
            raise ReplayError(
                f"{record_label(record)} differs in {side} and {other}: field {first_differing_field(before, record)}.\n"
                "One was redacted, saved without results, or edited. Give notebooks that were saved with the same options."
            )


def _comparable(record: SessionRecord) -> SessionRecord:
    """Return the record without its cell: saving may have given the cell another text."""
    return record.model_copy(update={"cell_id": None, "key": ""})


def _meta(base: Recording, a: Recording, b: Recording) -> SessionMeta:
    """Return A's fields, with those that only B changed."""
    names = [name for name in SessionMeta.model_fields if getattr(a.meta, name) == getattr(base.meta, name)]
    return a.meta.model_copy(update={name: getattr(b.meta, name) for name in names})


_NAME = re.compile(r"(%kin[ \t]+replay[ \t]+)\S+")
_BOTH = "**Merged:** A and B both changed this cell. The next two cells are their versions: keep one."
_REMOVED = "**Merged:** the next cell was changed in one notebook and removed in the other. Keep it or remove it."
Content = tuple[str, str]
Match = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class MergedCells:
    """`nb`: each cell holds the records of its source cells. `notes`: the number of cells that ask the user to choose."""

    nb: Any
    notes: int


@dataclass(frozen=True)
class _Entry:
    """A cell of the result, with the indexes of its source cells on either side."""

    cell: Any
    one: int | None = None
    other: int | None = None


def normalized(nb: Any, name: str = "the notebook") -> Any:
    """Return a copy without the cells that saving generates, each cell with an id of its own. Raises UnreadableNotebookError."""
    nb = as_node(nb, name)
    remove_binding_cells(nb)
    used: set[str] = set()
    for n, cell in enumerate(nb["cells"]):
        cell_id = cell.get("id")
        cell["id"] = cell_id if isinstance(cell_id, str) and cell_id not in used else _free(f"cell-{n}", used)
        used.add(cell["id"])
    return nb


def merge_cells(base: Any, one: Any, other: Any) -> MergedCells:
    """Merge the cells of three notebooks, all `normalized`, in the order of `one`. A new cell of `other` follows its predecessor.

    Where both added cells in one place, those of `one` come first.
    """
    entries = _entries(base["cells"], one["cells"], other["cells"])
    used: set[str] = set()
    for entry in entries:
        if entry.cell["id"] in used:
            entry.cell["id"] = _free(entry.cell["id"], used)
        used.add(entry.cell["id"])
        of_sides = [one["cells"][n] for n in [entry.one] if n is not None]
        _hold(entry.cell, of_sides + [other["cells"][n] for n in [entry.other] if n is not None])
    nb = copy.deepcopy(one)
    nb["cells"] = [entry.cell for entry in entries]
    nb["metadata"] = _three_way(base["metadata"], one["metadata"], other["metadata"])
    return MergedCells(nb, sum(cell["source"] in (_BOTH, _REMOVED) for cell in nb["cells"]))


def _hold(cell: Any, sides: Sequence[Any]) -> None:
    """Give `cell` the records of both sides' cells where known: saving writes them again."""
    records = [raw for side in sides for raw in _records(side)]
    cell["metadata"].pop("kin", None)
    if records:
        cell["metadata"]["kin"] = {RECORDS_KEY: records}


def _records(cell: Any) -> list[Any]:
    """Return the records in a cell's metadata, in stored form."""
    kin = cell["metadata"].get("kin")
    found = kin.get(RECORDS_KEY) if isinstance(kin, dict) else None
    carried = [each["record"] for each in raw_output_records(cell) if isinstance(each.get("record"), dict)]
    return [*(found if isinstance(found, list) else []), *carried]


def _entries(base: Sequence[Any], one: Sequence[Any], other: Sequence[Any]) -> list[_Entry]:
    in_one, in_other = _pairs(base, one, _CLOSE), _pairs(base, other, _CLOSE)
    origin = {theirs: n for n, theirs in in_one.items()}
    added = [n for n in range(len(one)) if n not in origin], set(range(len(other))) - set(in_other.values())
    twins = _pairs(one, other, (_same_answers,), added[0], sorted(added[1]))
    entries: list[_Entry] = []
    for n, cell in enumerate(one):
        was = origin.get(n)
        if was is None:
            entries.append(_Entry(copy.deepcopy(cell), n, twins.get(n)))
        elif was in in_other:
            entries += _combined(base[was], cell, other[in_other[was]], n, in_other[was])
        else:
            entries += [_Entry(kept, n) for kept in _left_by_one(base[was], cell)]
    removed = {theirs: base[n] for n, theirs in in_other.items() if n not in in_one}
    placed = {entry.other for entry in entries}
    for n, cell in enumerate(other):
        if n not in placed:
            kept = _left_by_one(removed[n], cell) if n in removed else [copy.deepcopy(cell)]
            place = _place(entries, n)
            entries[place:place] = [_Entry(each, other=n) for each in kept]
    return entries


def _place(entries: Sequence[_Entry], n: int) -> int:
    """Return the index after the predecessor of cell `n` of the other side and after what this side added there."""
    before = [at for at, entry in enumerate(entries) if entry.other is not None and entry.other < n]
    place = before[-1] + 1 if before else 0
    while place < len(entries) and entries[place].other is None:
        place += 1
    return place


def _combined(base: Any, one: Any, other: Any, n: int, m: int) -> list[_Entry]:
    ours, theirs, was = _content(one), _content(other), _content(base)
    if ours not in (theirs, was) and theirs != was:
        note = _note(_BOTH, one["id"])
        return [_Entry(note), _Entry(copy.deepcopy(one), n), _Entry(copy.deepcopy(other), other=m)]
    from_other = theirs != was if ours == was else False
    if ours == theirs == was:
        from_other = one.get("outputs") == base.get("outputs")
    cell = copy.deepcopy(other if from_other else one)
    cell["id"] = one["id"]
    cell["metadata"] = _three_way(base["metadata"], one["metadata"], other["metadata"])
    return [_Entry(cell, n, m)]


def _left_by_one(base: Any, cell: Any) -> list[Any]:
    """Return the cells to keep of a cell that the other side removed."""
    return [] if _content(cell) == _content(base) else [_note(_REMOVED, cell["id"]), copy.deepcopy(cell)]


def _three_way(base: Any, one: Any, other: Any) -> Any:
    """Merge metadata by key: a key that one side changed has its value; of two changes the first side's wins. Without records."""
    merged = copy.deepcopy(one)
    for key in (base.keys() | one.keys() | other.keys()) - {"kin"}:
        if one.get(key) == base.get(key):
            merged.pop(key, None)
            if key in other:
                merged[key] = copy.deepcopy(other[key])
    return merged


def _same_cell(x: Any, y: Any) -> bool:
    return bool(x["id"] == y["id"]) and _same_content(x, y)


def _same_content(x: Any, y: Any) -> bool:
    return _content(x) == _content(y)


def _same_answers(x: Any, y: Any) -> bool:
    """Whether two cells share their answers: cells with the same prompt are one cell only when it was answered once."""
    ours, theirs = ({raw.get("id") for raw in _records(cell) if isinstance(raw, dict)} for cell in (x, y))
    return _same_content(x, y) and ours == theirs


def _same_id(x: Any, y: Any) -> bool:
    return bool(x["id"] == y["id"] and x["cell_type"] == y["cell_type"])


_CLOSE: tuple[Match, ...] = (_same_cell, _same_content, _same_id)
"""Matches, the closest first. Text counts more than ids: an id made from a cell's position moves when cells are added above."""


def _pairs(
    xs: Sequence[Any],
    ys: Sequence[Any],
    close: Sequence[Match],
    x_places: Sequence[int] | None = None,
    y_places: Sequence[int] | None = None,
) -> dict[int, int]:
    """Match each of `xs` with at most one of `ys`, by index: first by the closest kind of match, then by the others."""
    x_left = list(range(len(xs)) if x_places is None else x_places)
    y_left = list(range(len(ys)) if y_places is None else y_places)
    found: dict[int, int] = {}
    for matches in close:
        for x in x_left:
            y = next((y for y in y_left if matches(xs[x], ys[y])), None)
            if y is not None:
                found[x] = y
                y_left.remove(y)
        x_left = [x for x in x_left if x not in found]
    return found


def _content(cell: Any) -> Content:
    """Return what the user wrote in a cell, without the recording that the first cell names."""
    text = "%%kin_recording" if is_recording_cell(cell) else _NAME.sub(r"\1", cell["source"])
    return cell["cell_type"], text


def _note(text: str, cell_id: str) -> Any:
    from nbformat.v4 import new_markdown_cell  # noqa: PLC0415  (first use)

    return new_markdown_cell(text, id=f"merged-{cell_id}"[:64])


def _free(wanted: str, used: set[str]) -> str:
    return next(name for n in range(len(used) + 1) if (name := f"{wanted[:56]}-{n}" if n else wanted) not in used)


@dataclass(frozen=True)
class MergedNotebook:
    """`notes`: the number of cells that ask the user to choose. `merged.recording` is what `nb` plays, except for cell keys.

    `messages`: the omitted records, and where a replay stops.
    """

    nb: Any
    merged: MergedRecording
    notes: int
    messages: Sequence[str]


def merge_notebooks(base: Any, a: Any, b: Any, folders: tuple[Path, Path] = (Path(), Path())) -> MergedNotebook:
    """Merge what both added to `base` into one session notebook, stored as `a` is (with a sidecar, or portable).

    `folders`: of A, and of the new notebook. Raises ReplayError that names the notebook and the turn.
    """
    merged = merge_recordings(_read("BASE", base), _read("A", a), _read("B", b))
    cells = merge_cells(normalized(base, "BASE"), normalized(a, "A"), normalized(b, "B"))
    recording = relocate(merged.recording, *folders)
    commands = drop_commands(cells.nb, recording)
    form = SaveOptions(portable=any(map(is_recording_cell, a["cells"])), sidecar=SIDECAR in a["metadata"]["kin"])
    nb = session_notebook(recording, source_nb=cells.nb, options=form)
    left_out = f"Left out: {counted(commands, 'command')}." if commands else ""
    said = [*filter(None, (left_out, describe_unanswered(nb, read_saved(nb).records_by_cell)))]
    merged = replace(merged, head=Book.collect(nb).head())
    return MergedNotebook(with_stamps(nb, common_stamps(a, b)), merged, cells.notes, said)


def _read(name: str, nb: Any) -> Recording:
    """Return the recording of `nb`, with the records that only its outputs have."""
    try:
        read_saved(nb)
        return Book.collect(nb).recording
    except RecordingError as error:
        raise type(error)(f"{name}: {error}") from error
