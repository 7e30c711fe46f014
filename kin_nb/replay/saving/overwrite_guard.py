"""Decide whether a session notebook may replace the file that is there: no record, no cell and no redaction may be lost.

A notebook that was saved with `--redact` or `--no-results` stays so: what was removed is not written into it again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kin_nb.core.redaction import REDACTED
from kin_nb.render import one_line
from kin_nb.replay.cell_keys import conversation_key
from kin_nb.replay.errors import LaterFormatError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import claimed_identity, raw_records
from kin_nb.replay.format.notebook_reader import (
    describe_merge_conflict,
    describe_other_format,
    load_notebook,
    shortened,
)
from kin_nb.replay.format.output_records import backed_up_records, raw_output_records
from kin_nb.replay.format.record_codec import TYPES, RecordReader, encode_record
from kin_nb.replay.format.redacted_text import has_redaction_marks, matches_redacted
from kin_nb.replay.format.storage import claimed_sidecar, stored_texts
from kin_nb.replay.recording import FORMAT, Recording, SessionMeta
from kin_nb.replay.saving.user_cells import check_user_cells_kept


def check_overwrite(nb: Any, path: Path, *, itself: bool) -> Any:
    """Return the notebook at `path`, which `nb` may replace; None for an empty file. Raises RecordingError if it may not.

    `itself`: `nb` was made from the file at `path`.

    A damaged recording of the same session may be replaced by one that has all of it: that is its repair.
    """
    if path.is_file() and not path.stat().st_size:
        return None  # an empty file has no content to lose
    try:
        there = load_notebook(path)
    except UnreadableNotebookError:
        there = None
    if there is None or "kin" not in there["metadata"]:
        raise RecordingError(
            f"Not saved: {path.name} exists and is not a session notebook.\nChoose another name, or remove that file."
        )
    try:
        _check_no_later_version_wrote(there)
    except LaterFormatError as error:
        raise RecordingError(f"Not saved: {path.name} has data of another kin_nb version: {error}") from None
    session = claimed_identity(there)[0]
    missing = missing_records(there, nb)
    if missing:
        other = "combine both: kin-nb merge" if session == claimed_identity(nb)[0] else "compare both: kin-nb diff"
        raise RecordingError(
            f"Not saved: {path.name} has {missing} of session {session[:8]}, which this session does not have.\n"
            f"Choose another name, or {other}"
        )
    check_redaction_kept(there, nb, path.name)
    check_user_cells_kept(there, nb, path.name, itself=itself)
    return there


def missing_records(there: Any, nb: Any) -> str:
    """Name the records that `there` holds, in cells or outputs, and `nb` does not: `turns 2, 3, undo`; "" for none.

    A damaged record is known by its id: it may be replaced by a whole one. A turn is lost too where `nb` has fewer of its
    steps. Raises RecordingError where a merge left a conflict.
    """
    conflict = describe_merge_conflict(there)
    if conflict:
        raise RecordingError(f"Not saved: {conflict}")
    now = {_id_of(raw): raw for _, raw in _all_records(nb)}
    turns: list[str] = []
    moves: list[str] = []
    unread: list[str] = []
    for index, raw in _all_records(there):
        known = now.get(_id_of(raw))
        if known is not None and _steps(raw) <= _steps(known):
            continue
        if not _id_of(raw):
            unread.append(f"an unreadable record in cell {index + 1}")
        elif raw.get("type") == "turn":
            turns.append(one_line(str(raw.get("turn")), 20))
        else:
            kind = one_line(str(raw.get("type")), 40)
            moves.append(kind if kind in TYPES else f"a record of type {kind}")
    named = [f"turn{'s' if len(turns) > 1 else ''} {', '.join(dict.fromkeys(turns))}"] if turns else []
    return ", ".join(dict.fromkeys([*named, *moves, *unread]))


def _check_no_later_version_wrote(there: Any) -> None:
    """Raise LaterFormatError for a record of a later version, even if something else is damaged."""
    kin = there["metadata"]["kin"]
    fields = kin if isinstance(kin, dict) else {}
    if isinstance(fields.get("format"), int | float) and fields["format"] != FORMAT:
        raise LaterFormatError(describe_other_format(fields["format"], fields.get("kin_nb")))
    meta = SessionMeta(session="none", kin_nb=shortened(fields.get("kin_nb", ""))[:64])
    for index, raw in raw_records(there):
        texts = {**stored_texts(kin), **stored_texts(there["cells"][index]["metadata"]["kin"])}
        try:
            RecordReader(meta, texts, claimed_sidecar(there)).read(index + 1, raw)
        except LaterFormatError:
            raise
        except RecordingError:
            continue  # a whole one may take its place


def _all_records(nb: Any) -> Iterator[tuple[int, Any]]:
    """Yield each record in a cell's metadata or outputs, unverified, with the cell's index."""
    yield from raw_records(nb)
    indexes = {cell.get("id"): index for index, cell in enumerate(nb["cells"])}
    for index, cell in enumerate(nb["cells"]):
        yield from ((index, carried.get("record")) for carried in raw_output_records(cell))
    for each in backed_up_records(nb):
        if each["cell"] in indexes:
            yield indexes[each["cell"]], each["carried"].get("record")


def _id_of(raw: Any) -> str:
    """Return the record's id; for a record of a later version without one, its hash."""
    if not isinstance(raw, dict):
        return ""
    named = raw.get("id") or (raw.get("sha") if raw.get("type") not in TYPES else "")
    return named if isinstance(named, str) else ""


def _steps(raw: Any) -> int:
    steps = raw.get("steps")
    return len(steps) if isinstance(steps, list) else 0


_WITHHELD = "withheld"
_TEXT, _RESULTS = "with redactions", "without results"
_OPTIONS = {_TEXT: "--redact PATTERN", _RESULTS: "--no-results"}

_Texts = Mapping[str, Any]
"""Long texts by their hash."""


def check_redaction_kept(there: Any, nb: Any, name: str) -> None:
    """Raise RecordingError if `nb` has a text that is redacted or withheld in the same record of `there`, the file `name`.

    A record is known by its id, a damaged one too. Text in which more has been taken out is accepted.
    """
    now = {raw["id"]: (raw, texts) for _, raw, texts in _records(nb)}
    _refuse(_reductions(there, now), name)


def check_added_records(there: Any, log: Recording, name: str, *, redacts: bool) -> None:
    """Raise RecordingError if `log`, from which records would be added to `there`, the file `name`, is less redacted.

    The new record may hold what was taken out of the others. `log`: as it would be written. `redacts`: whether patterns are
    named; where no record tells that something was taken out, the cells may.
    """
    whole: dict[str, tuple[dict[str, Any], _Texts]] = {}
    for record in log.records:
        blobs: dict[str, Any] = {}
        whole[record.id] = (encode_record(record, blobs), blobs)
    found = _reductions(there, whole)
    if not redacts and not found and not any(REDACTED in json.dumps(each) for each in whole.values()):
        cleaned = [number for number, cell in enumerate(there["cells"], 1) if _is_cleaned(there, cell)]
        found = {_TEXT: f"cell {cleaned[0]}"} if cleaned else {}
    _refuse(found, name)


def _refuse(found: Mapping[str, str], name: str) -> None:
    """Raise RecordingError unless `found`, the places by the kind of redaction, is empty."""
    if found:
        how, options = " and ".join(found), " and ".join(_OPTIONS[each] for each in found)
        raise RecordingError(
            f"Not saved: {name} was saved {how} ({next(iter(found.values()))}), and this save would bring that back.\n"
            f"Save with {options} again, or choose another name."
        )


def _reductions(there: Any, now: Mapping[str, tuple[dict[str, Any], _Texts]]) -> dict[str, str]:
    """Find records that are redacted in `there` and complete in `now`: kind of redaction -> first place."""
    found: dict[str, str] = {}
    for index, raw, texts in _records(there):
        new, new_texts = now.get(raw["id"], (None, {}))
        if new is not None and new.get("sha") != raw.get("sha"):
            for how in _put_back(raw, texts, new, new_texts):
                found.setdefault(how, f"cell {index + 1}, {_label(raw)}")
    return found


def _is_cleaned(nb: Any, cell: Any) -> bool:
    """Whether a save redacted something in a prompt cell, by its text and outputs."""
    return conversation_key(nb, cell) is not None and REDACTED in json.dumps([cell["source"], cell.get("outputs")])


def _records(nb: Any) -> Iterator[tuple[int, dict[str, Any], _Texts]]:
    """Yield (index of the cell, record, its long texts), unverified, for each record with an id."""
    common = stored_texts(nb["metadata"].get("kin"))
    for index, raw in raw_records(nb):
        if isinstance(raw, dict) and isinstance(raw.get("id"), str):
            yield index, raw, {**common, **stored_texts(nb["cells"][index]["metadata"]["kin"])}


def _put_back(was: Any, texts: _Texts, now: Any, new_texts: _Texts) -> Iterator[str]:
    """Yield how `was` is redacted, for each place where `now` is not."""
    before, after = _text(was, texts), _text(now, new_texts)
    if before is not None:
        # what goes further than before is a mark for text that has a mark in it
        if after is not None and has_redaction_marks(before) and not matches_redacted(after, before):
            yield _TEXT
    elif isinstance(was, dict) and isinstance(now, dict):
        if was.get(_WITHHELD) and now.get("output") and not now.get(_WITHHELD):
            yield _RESULTS
        for key in was.keys() & now.keys():
            yield from _put_back(was[key], texts, now[key], new_texts)
    elif isinstance(was, list) and isinstance(now, list):
        for one, other in zip(was, now, strict=False):
            yield from _put_back(one, texts, other, new_texts)


def _text(value: Any, texts: _Texts) -> str | None:
    """Return the text of a stored value; None if it is not a text, or missing."""
    if isinstance(value, dict) and value.keys() == {"blob"} and isinstance(value["blob"], str):
        value = texts.get(value["blob"])
    if isinstance(value, dict) and value.keys() == {"json"}:
        with suppress(TypeError, ValueError, RecursionError):
            value = json.loads(value["json"])
    return value if isinstance(value, str) else None


def _label(raw: dict[str, Any]) -> str:
    return f"turn {one_line(str(raw.get('turn')), 20)}" if raw.get("type") == "turn" else one_line(str(raw["type"]), 40)
