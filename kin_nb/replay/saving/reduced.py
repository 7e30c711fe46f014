"""A session notebook that was saved with `--redact` or `--no-results` stays so: what went is not written into it again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from kin_nb.core.redaction import REDACTED
from kin_nb.render import one_line
from kin_nb.replay.cells import speaking_key
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.embedded import texts_in
from kin_nb.replay.format.in_notebook import raw_records
from kin_nb.replay.format.reading import record_json
from kin_nb.replay.format.taken_out import as_saved, holds_marks
from kin_nb.replay.recording import Recording

_WITHHELD = "withheld"
_TEXT, _RESULTS = "with text taken out", "without results"
_OPTIONS = {_TEXT: "--redact PATTERN", _RESULTS: "--no-results"}

_Texts = Mapping[str, Any]
"""Long texts by their hash."""


def check_stays_reduced(there: Any, nb: Any, name: str) -> None:
    """Raises RecordingError when a record in `there`, the file `name`, has a mark where `nb` has the text, or a hash for a result.

    A record is known by its id, a damaged one too. Text in which more has been taken out is accepted.
    """
    now = {raw["id"]: (raw, texts) for _, raw, texts in _records(nb)}
    _refuse(_reductions(there, now), name)


def check_addition(there: Any, log: Recording, name: str, *, redacts: bool) -> None:
    """Raises RecordingError when `log`, of which a record would come into `there`, the file `name`, is less reduced than that.

    The new record may hold what was taken out of the others. `log`: as it would be written. `redacts`: whether patterns are
    named; where no record tells that something was taken out, the cells may.
    """
    whole: dict[str, tuple[dict[str, Any], _Texts]] = {}
    for record in log.records:
        blobs: dict[str, Any] = {}
        whole[record.id] = (record_json(record, blobs), blobs)
    found = _reductions(there, whole)
    if not redacts and not found and not any(REDACTED in json.dumps(each) for each in whole.values()):
        cleaned = [number for number, cell in enumerate(there["cells"], 1) if _is_cleaned(there, cell)]
        found = {_TEXT: f"cell {cleaned[0]}"} if cleaned else {}
    _refuse(found, name)


def _refuse(found: Mapping[str, str], name: str) -> None:
    """Raises RecordingError unless `found`, the place by how `name` was reduced, is empty."""
    if found:
        how, options = " and ".join(found), " and ".join(_OPTIONS[each] for each in found)
        raise RecordingError(
            f"{name} was saved {how} ({next(iter(found.values()))}), and what this would write was not: nothing was written. Save "
            f"with {options} again, or choose another name."
        )


def _reductions(there: Any, now: Mapping[str, tuple[dict[str, Any], _Texts]]) -> dict[str, str]:
    """How records of `there` are reduced that are whole in `now`, by their ids: the first place of each."""
    found: dict[str, str] = {}
    for index, raw, texts in _records(there):
        new, new_texts = now.get(raw["id"], (None, {}))
        if new is not None and new.get("sha") != raw.get("sha"):
            for how in _put_back(raw, texts, new, new_texts):
                found.setdefault(how, f"cell {index + 1}, {_label(raw)}")
    return found


def _is_cleaned(nb: Any, cell: Any) -> bool:
    """Whether a save took something out of a cell that speaks to the agent, as far as its text and outputs tell."""
    return speaking_key(nb, cell) is not None and REDACTED in json.dumps([cell["source"], cell.get("outputs")])


def _records(nb: Any) -> Iterator[tuple[int, dict[str, Any], _Texts]]:
    """(index of the cell, record, the texts that it may name), unchecked, of each with an id."""
    common = texts_in(nb["metadata"].get("kin"))
    for index, raw in raw_records(nb):
        if isinstance(raw, dict) and isinstance(raw.get("id"), str):
            yield index, raw, {**common, **texts_in(nb["cells"][index]["metadata"]["kin"])}


def _put_back(was: Any, texts: _Texts, now: Any, new_texts: _Texts) -> Iterator[str]:
    """How `was` is reduced, in each place where `now` is not."""
    before, after = _text(was, texts), _text(now, new_texts)
    if before is not None:
        # what goes further than before is a mark for text that has a mark in it
        if after is not None and holds_marks(before) and not as_saved(after, before):
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
    """The text that a value is stored for; None where it is none, or missing."""
    if isinstance(value, dict) and value.keys() == {"blob"} and isinstance(value["blob"], str):
        value = texts.get(value["blob"])
    if isinstance(value, dict) and value.keys() == {"json"}:
        with suppress(TypeError, ValueError, RecursionError):
            value = json.loads(value["json"])
    return value if isinstance(value, str) else None


def _label(raw: dict[str, Any]) -> str:
    return f"turn {one_line(str(raw.get('turn')), 20)}" if raw.get("type") == "turn" else one_line(str(raw["type"]), 40)
