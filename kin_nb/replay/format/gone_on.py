"""A session notebook that went on live, and that only a front end saved since: its outputs carry what follows its recording."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kin_nb.core.session.records import UndoRecord
from kin_nb.replay.cells.placing import named_session
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_outputs import Carried, carried_records, claimed_sessions, of_records
from kin_nb.replay.format.reading import Reading
from kin_nb.replay.recording import Recording, turn_sha, undo_sha, whole_numbers

Named = tuple[str, int]
"""A record's type, and its number: a turn's own, an undo's in its session."""
Card = tuple[UndoRecord, Mapping[str, Any]]
"""An undo, and the metadata that carries it."""
_NUMBERS = {"turn": "turn", "undo": "n", "redo": "n"}
"""What is played, and the field that has its number."""
_UNDONE = "the outputs do not carry all that was undone."


@dataclass(frozen=True)
class GoneOn:
    """`recording`: with what follows it, as the session that went on last; as it was where nothing follows.

    `carried`: the metadata that carries each record which follows. `apart`: ids of sessions that the outputs have turns
    of, which do not follow it. `gaps`: turns that were asked again are not among them, nor what took them back.
    """

    recording: Recording
    carried: Mapping[Named, dict[str, Any]]
    apart: Sequence[str] = ()
    gaps: bool = False
    cards: Mapping[int, Sequence[Card]] = field(default_factory=dict)
    """What was undone in the cell of the turn that came after it: asked again from where it stood."""
    undone: int = 0
    """The number of the last undo."""
    undone_by: Mapping[str, Card] = field(default_factory=dict)
    """By the id of a cell that undid, what it did last, also where that took back turns which are not there any more."""


def gone_on(nb: Any, recording: Recording) -> GoneOn:
    """What the outputs of `nb`, which holds `recording`, carry after it: of one session, or of several in turn.

    Where two went on from one place, the one that stands first counts. A turn that was asked again from where it stood is not
    in the outputs any more. Raises RecordingError when what follows was changed, or when something else is missing (its cell
    was run again, or deleted).
    """
    sessions: dict[str, list[Carried]] = {}
    for each in carried_records(nb):
        if _type(each) in {*_NUMBERS, ""}:
            sessions.setdefault(each.meta.session, []).append(each)
    shas = _shas(recording, {_named(each) for records in sessions.values() for each in records})
    last, session = _last(recording), recording.session
    following: dict[Named, Carried] = {}
    apart = []
    for name in sorted(sessions, key=lambda name: max(map(_place, sessions[name]))):
        new = {_named(each): each for each in sessions[name] if shas.get(_named(each)) != _sha(each)}
        if not new:
            continue
        if _goes_on(new.values(), last, session):
            following |= new
            shas |= {named: _sha(each) for named, each in new.items()}
            last, session = max([last, *(number for kind, number in new if kind == "turn")]), name
        else:
            apart.append(name)
    found, undos, held = _joined(recording, list(following.values())) if following else (recording, {}, ())
    gaps = last - _last(recording) > len(found.turns) - len(recording.turns)
    carries = {named: {KEY: each.kept} for named, each in following.items() if named[0] == "turn"}
    for position, number in enumerate(held, 1):
        named = undos[number].type, number
        if named in following:
            carries[named[0], position] = {KEY: following[named].kept}
    undone_by = {
        str(nb["cells"][following[undo.type, n].cell - 1].get("id")): (undo, {KEY: following[undo.type, n].kept})
        for n, undo in undos.items()
        if (undo.type, n) in following
    }
    return GoneOn(found, carries, apart, gaps, _cards(following, undos), max(undos, default=0), undone_by)


def whole(nb: Any, recording: Recording) -> Recording:
    """`recording`, which `nb` holds, or what it went on to. Raises RecordingError naming the repair, as `gone_on`."""
    try:
        return gone_on(nb, recording).recording
    except RecordingError as error:
        raise RecordingError(
            f"what its outputs carry does not follow its recording: {error} To have the recording alone: kin-nb save "
            f"NOTEBOOK.ipynb OUT.ipynb; all of it, where the log has it: kin-nb save {_newest(nb)} OUT.ipynb"
        ) from error


def _newest(nb: Any) -> str:
    """The session that the outputs name last; one that the notebook has beside its own only where there is no other."""
    beside = [(bool(named_session(cell)), name) for cell in nb["cells"] for name in claimed_sessions(cell)]
    names = [name for named, name in beside if not named] or [name for _, name in beside]
    return names[-1][:8] if names else "SESSION"


def _shas(recording: Recording, wanted: set[Named]) -> dict[Named, str]:
    """Of the records that outputs carry too."""
    turns = {("turn", turn.turn): turn for turn in recording.turns}
    undos = {(undo.type, number): undo for number, undo in enumerate(recording.undos, 1)}
    return {named: turn_sha(turn) for named, turn in turns.items() if named in wanted} | {
        named: undo_sha(named[1], undo) for named, undo in undos.items() if named in wanted
    }


def _last(recording: Recording) -> int:
    return recording.turns[-1].turn if recording.turns else 0


def _goes_on(records: Collection[Carried], last: int, session: str) -> bool:
    """Whether they came after turn `last`, the last that is known of `session`, in this or in one that went on from it."""
    first = min(map(_place, records))
    if any(each.meta.session != session and each.after is None for each in records):  # an old notebook
        return first == last
    # a turn that a session took over from another may have been brought from the log as its own
    return first >= last and any(session in {each.meta.session, each.after} for each in records)


def _cards(following: Mapping[Named, Carried], undos: Mapping[int, UndoRecord]) -> dict[int, list[Card]]:
    """Those of `undos` that stand in the cell of a turn, by that turn."""
    cells = {each.cell: number for (kind, number), each in following.items() if kind == "turn"}
    cards: dict[int, list[Card]] = {}
    for number, undo in undos.items():
        card = following.get((undo.type, number))
        if card is not None and card.cell in cells:
            cards.setdefault(cells[card.cell], []).append((undo, {KEY: card.kept}))
    return cards


def _joined(
    recording: Recording, records: Sequence[Carried]
) -> tuple[Recording, Mapping[int, UndoRecord], Sequence[int]]:
    """`recording` and what follows it; all that was undone, by its number; the numbers of what of that it holds.

    It cannot hold what takes back a turn that is missing. Raises RecordingError for what was changed, and where something
    else is missing.
    """
    meta = records[-1].meta
    reading = Reading(meta, {sha: text for each in records for sha, text in each.blobs.items()})
    reading.hold(recording)
    for each in records:
        reading.add(each.cell, each.record)
    _check_turns(reading, _last(recording))
    found, held = of_records(reading, meta)
    found = replace(found, others=recording.others)
    origins = {read.record.origin.turn for read in reading.turns.values() if read.record.origin is not None}
    guessed = held or origins - reading.turns.keys() - {0}  # what stood there is known only with all that was undone
    if guessed and len(reading.undos) < max(reading.undos, default=0):
        raise RecordingError(_UNDONE)
    standing = {found.turns[position].turn for position in found.standing}
    if any(n not in held and not standing.isdisjoint(undo.turns) for n, undo in reading.undos.items()):
        raise RecordingError(_UNDONE)
    return found, reading.undos, held


def _check_turns(reading: Reading, known: int) -> None:
    """Of the turns after `known` only those are missing that were taken back, and nothing was that is not undone here.

    Raises RecordingError.
    """
    undone = {number for undo in reading.undos.values() for number in undo.turns}
    kept = sorted(reading.turns.keys() - undone)
    new = sorted(number for number in reading.turns if number > known)
    passed = known  # until there each turn is here, or was taken back
    for number in new:
        origin = reading.turns[number].record.origin
        first = number if origin is None else origin.turn + (origin.step != 0)
        if any(each not in undone for each in range(passed + 1, min(first, number, passed + 1 + len(undone) + 1))):
            raise RecordingError(f"the outputs carry turn {number}, and not all before it.")
        passed = number
        at = bisect_left(kept, number)
        if origin is None:
            continue
        before = kept[at - 1] if at else 0
        between = range(before + 1, origin.turn if origin.turn not in reading.turns else before + 1)
        if before >= first or any(each not in undone for each in between):
            raise RecordingError(_UNDONE)


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
