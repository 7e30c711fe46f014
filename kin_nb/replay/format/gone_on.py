"""A session notebook that went on live, and that only a front end saved since: its outputs carry what follows its recording."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_outputs import Carried, carried_records, of_records
from kin_nb.replay.format.reading import Read, Reading
from kin_nb.replay.recording import SHORT, Recording, turn_sha, undo_sha, whole_numbers

Named = tuple[str, int]
"""A record's type, and its number: a turn's own, an undo's in its session."""
_NUMBERS = {"turn": "turn", "undo": "n", "redo": "n"}
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
        if _type(each) in {*_NUMBERS, ""}:
            sessions.setdefault(each.meta.session, []).append(each)
    shas = _shas(recording, {_named(each) for records in sessions.values() for each in records})
    last = _last(recording)
    following: dict[Named, Carried] = {}
    apart = []
    for name in sorted(sessions, key=lambda name: min(map(_place, sessions[name]))):
        new = {_named(each): each for each in sessions[name] if shas.get(_named(each)) != _sha(each)}
        if all(_comes_after(each, last, shas, recording.session) for each in new.values()):
            following |= new
            shas |= {named: _sha(each) for named, each in new.items()}
            last = max([last, *(number for kind, number in new if kind == "turn")])
        else:
            apart.append(name)
    found = _joined(recording, list(following.values())) if following else recording
    return GoneOn(found, {named: {KEY: each.kept} for named, each in following.items()}, apart)


def whole(nb: Any, recording: Recording) -> Recording:
    """`recording`, which `nb` holds, or what it went on to. Raises RecordingError naming the repair, as `gone_on`."""
    try:
        return gone_on(nb, recording).recording
    except RecordingError as error:
        raise RecordingError(
            f"what its outputs carry does not follow its recording: {error} To have the recording alone: kin-nb save "
            "NOTEBOOK.ipynb OUT.ipynb"
        ) from error


def _shas(recording: Recording, wanted: set[Named]) -> dict[Named, str]:
    """Of the records that outputs carry too, and of the last turn."""
    wanted |= {("turn", _last(recording))}
    turns = {("turn", turn.turn): turn for turn in recording.turns}
    undos = {(undo.type, number): undo for number, undo in enumerate(recording.undos, 1)}
    return {named: turn_sha(turn) for named, turn in turns.items() if named in wanted} | {
        named: undo_sha(named[1], undo) for named, undo in undos.items() if named in wanted
    }


def _last(recording: Recording) -> int:
    return recording.turns[-1].turn if recording.turns else 0


def _comes_after(carried: Carried, last: int, shas: Mapping[Named, str], session: str) -> bool:
    """Whether it came after turn `last`: after that very turn, if it says so and is not of `session` itself.

    Texts may have been taken out of that one's recording.
    """
    place = _place(carried)
    same = carried.after in {"", shas.get(("turn", last), "")[:SHORT]} or carried.meta.session == session
    return place > last or (place == last and same)


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


def _type(carried: Carried) -> str:
    """ "" for what is no record."""
    found = carried.record.get("type") if isinstance(carried.record, dict) else None
    return found if isinstance(found, str) else ""


def _named(carried: Carried) -> Named:
    return _type(carried), _number(carried, _NUMBERS.get(_type(carried), ""))


def _place(carried: Carried) -> int:
    """After how many turns it came."""
    return _number(carried, "turn") - 1 if _type(carried) == "turn" else _number(carried, "at")


def _number(carried: Carried, field: str) -> int:
    """As the record says it, unread; a very high one for what is none, which is named when it is read."""
    number = whole_numbers(carried.record.get(field)) if isinstance(carried.record, dict) else None
    return number if isinstance(number, int) else sys.maxsize


def _sha(carried: Carried) -> str:
    """As the record says it."""
    return str(carried.record.get("sha")) if isinstance(carried.record, dict) else ""
