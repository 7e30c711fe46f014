"""A session notebook that went on live, and that only a front end saved since: its outputs carry what follows its recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_outputs import Carried, carried_records, of_records
from kin_nb.replay.format.reading import Read, Reading
from kin_nb.replay.recording import SHORT, Recording, turn_sha, undo_sha, whole_numbers

Named = tuple[str, int]
"""A record's type, and its number: a turn's own, an undo's in its session."""
_KINDS = {"turn": "turn", "undo": "n", "redo": "n"}
"""What is played, and the field that has its number."""


@dataclass(frozen=True)
class GoneOn:
    """`recording`: with what follows it, as the session that went on last; as it was where nothing follows.

    `carried`: the metadata that carries each record which follows. `apart`: ids of sessions that the outputs have turns
    of, which do not follow it.
    """

    recording: Recording
    carried: Mapping[Named, dict[str, Any]]
    apart: Sequence[str] = ()


def gone_on(nb: Any, recording: Recording) -> GoneOn:
    """What the outputs of `nb`, which holds `recording`, carry after it: of one session, or of several in turn.

    Where two went on from one place, the one that stands first counts. Raises RecordingError when what follows was changed,
    or when something between is missing (its cell was run again, or deleted).
    """
    sessions: dict[str, list[Carried]] = {}
    for each in carried_records(nb):
        sessions.setdefault(each.meta.session, []).append(each)
    found, carried = recording, dict[Named, dict[str, Any]]()
    while following := {name: place for name, each in sessions.items() if (place := _begins(found, each)) is not None}:
        records = sessions.pop(min(following, key=following.__getitem__))
        carried |= {named: {KEY: each.kept} for named, each in _new(found, records)}
        found = _joined(found, records)
    return GoneOn(found, carried, [name for name, records in sessions.items() if any(_new(recording, records))])


def whole(nb: Any, recording: Recording) -> Recording:
    """`recording`, which `nb` holds, or what it went on to. Raises RecordingError naming the repair, as `gone_on`."""
    try:
        return gone_on(nb, recording).recording
    except RecordingError as error:
        raise RecordingError(
            f"what its outputs carry does not follow its recording: {error} To have the recording alone: kin-nb save "
            "NOTEBOOK.ipynb OUT.ipynb"
        ) from error


def _new(recording: Recording, records: Sequence[Carried]) -> Iterator[tuple[Named, Carried]]:
    """Those of `records` that `recording` does not hold, unread: their numbers are what they say."""
    turns = {turn.turn: turn for turn in recording.turns}
    undos = dict(enumerate(recording.undos, 1))
    for each in records:
        kind, record = _kind(each)
        number = _number(record.get(_KINDS.get(kind, "")))
        if kind == "turn":
            held = number in turns and turn_sha(turns[number]) == record.get("sha")
        else:
            held = number in undos and undo_sha(number, undos[number]) == record.get("sha")
        if kind in {"", *_KINDS} and not held:
            yield (kind, number), each


def _begins(recording: Recording, records: Sequence[Carried]) -> int | None:
    """After how many turns a session went on from `recording`; None when it did not.

    All that is new came after the last turn of `recording`, and, where it says which it came after, after that very turn.
    """
    last = recording.turns[-1].turn if recording.turns else 0
    end = turn_sha(recording.turns[-1])[:SHORT] if recording.turns else ""
    new = [(_place(each), each) for _, each in _new(recording, records)]
    follows = all(
        place > last or (place == last and (each.after in {"", end} or each.meta.session == recording.session))
        for place, each in new
    )
    return min((place for place, _ in new), default=None) if follows else None


def _place(carried: Carried) -> int:
    """After how many turns it came."""
    kind, record = _kind(carried)
    return _number(record.get("turn")) - 1 if kind == "turn" else _number(record.get("at"))


def _kind(carried: Carried) -> tuple[str, dict[str, Any]]:
    """Its type, and the record; of what is none "", and nothing."""
    record = carried.record
    return (record["type"], record) if isinstance(record, dict) and isinstance(record.get("type"), str) else ("", {})


def _number(value: Any) -> int:
    """As a file says it; a very high one for what is none, which is named when it is read."""
    number = whole_numbers(value)
    return number if isinstance(number, int) else sys.maxsize


def _joined(recording: Recording, records: Sequence[Carried]) -> Recording:
    """`recording` and what follows it. Raises RecordingError for what was changed, and where something is missing."""
    meta = records[-1].meta
    reading = Reading(meta, {sha: text for each in records for sha, text in each.blobs.items()})
    reading.turns.update((turn.turn, Read(0, turn)) for turn in recording.turns)
    reading.undos.update(enumerate(recording.undos, 1))
    for each in records:
        reading.add(each.cell, each.record)
    found = replace(of_records(reading, meta), others=recording.others)
    last = found.turns[-1].turn
    if last != len(found.turns):
        raise RecordingError(f"the outputs carry turn {last}, and not all before it.")
    if set(reading.undos) != set(range(1, len(found.undos) + 1)):
        raise RecordingError("the outputs do not carry all that was undone.")
    return found
