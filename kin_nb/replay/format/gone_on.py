"""A session notebook that went on live, and that only a front end saved since: its outputs carry what follows its recording."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.session.records import UndoRecord
from kin_nb.replay.cells.placing import asked_key, named_session
from kin_nb.replay.errors import DoesNotFollowError, RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_outputs import Carried, Named, carried_records, claimed_sessions, joined
from kin_nb.replay.format.stood import Run
from kin_nb.replay.recording import Recording, turn_sha, undo_sha

Card = tuple[UndoRecord, Mapping[str, Any]]
"""An undo, and the metadata that carries it."""


@dataclass(frozen=True)
class GoneOn:
    """`recording`: with what follows it, as the session that went on last; as it was where nothing follows.

    `carried`: the metadata that carries each record which follows. `apart`: ids of sessions that the outputs have turns
    of, which do not follow it. `gaps`: not all turns are among them; what undid those may not be either.
    """

    recording: Recording
    carried: Mapping[Named, dict[str, Any]]
    apart: Sequence[str] = ()
    gaps: bool = False
    cards: Mapping[int, Sequence[Card]] = field(default_factory=dict)
    """What was undone in the cell of the turn that came after it: asked again from where it stood."""
    undone: int = 0
    """The number of the last undo."""
    last: int = 0
    """The highest number of a turn that is told of; not all these are there."""
    after: Sequence[str] = ()
    """The sessions that `recording` went on from, the nearest first."""
    undone_by: Mapping[str, Card] = field(default_factory=dict)
    """By the id of a cell that undid, what it did last, also where that took back turns which are not there any more."""
    latest: Mapping[str, int] = field(default_factory=dict)
    """By the id of a cell, the last turn that it shows."""
    shown: Mapping[str, int] = field(default_factory=dict)
    """The same of cells whose text is still that of the turn, in their order, also where `recording` has the turn."""
    lost: Mapping[int, Sequence[Run]] = field(default_factory=dict)
    """By turn, those before it in the conversation that are not there: their cells were run again, or deleted."""
    cleared: bool = False
    """Whether the conversation was cleared where `recording` ends."""


def gone_on(nb: Any, recording: Recording) -> GoneOn:
    """What the outputs of `nb`, which holds `recording`, carry after it: of one session, or of several in turn.

    Where two went on from one place, the one that stands first counts. A turn that was asked again from where it stood is not
    in the outputs any more, nor is one that failed and was run again. Raises RecordingError when a record of the notebook's
    session, or of one that went on from it, was changed, DoesNotFollowError when what follows does not fit together.
    """
    following, there, apart = _following(nb, recording)
    shown = _shown(nb, there)
    if not following:
        return GoneOn(recording, {}, apart, shown=shown)
    records = list(following.values())
    found = joined(records, records[-1].meta, recording)
    known, undos = _last(recording), found.undos
    last = max([_last(found.recording), *(turn for undo in undos.values() for turn in (undo.at, *undo.turns))])
    carries = {named: {KEY: each.kept} for named, each in following.items() if named[0] == "turn"}
    for position, number in enumerate(found.held, 1):
        named = undos[number].type, number
        if named in following:
            carries[named[0], position] = {KEY: following[named].kept}
    cards = _cards(following, undos)
    return GoneOn(
        found.recording,
        carries,
        apart,
        gaps=last - known > len(found.recording.turns) - len(recording.turns),
        cards=cards,
        undone=max(undos, default=0),
        after=records[-1].after or (recording.session,),
        undone_by=_undone_by(nb, following, undos),
        latest=_latest(nb, following),
        shown=shown,
        lost=found.lost,
        last=last,
        cleared=found.cleared,
    )


def _following(nb: Any, recording: Recording) -> tuple[dict[Named, Carried], list[Carried], list[str]]:
    """What follows; all that is there of this and of `recording`; the ids of sessions that do not follow."""
    sessions: dict[str, list[Carried]] = {}
    for each in carried_records(nb):
        if _is_related(each, recording.session):
            each.verify()  # whatever it claims decides below whether it counts
        if each.is_played:
            sessions.setdefault(each.meta.session, []).append(each)
    shas = _shas(recording, {each.named for records in sessions.values() for each in records})
    last, session = (_last(recording), len(recording.undos)), recording.session
    following: dict[Named, Carried] = {}
    apart = []
    for name in sorted(sessions, key=lambda name: _order(sessions[name])):
        new = {each.named: each for each in sessions[name] if shas.get(each.named) != each.sha}
        if not new:
            continue
        if _goes_on([*new.values()], last, session) and not any(named in shas for named in new):
            following |= new
            shas |= {named: each.sha for named, each in new.items()}
            turn = max([last[0], *(each.number for each in new.values() if each.type == "turn")])
            last = turn, max([last[1], *(each.number for each in new.values() if each.type != "turn")])
            session = name
        else:
            apart.append(name)
    there = [each for records in sessions.values() for each in records if shas.get(each.named) == each.sha]
    return following, there, apart


def _is_related(record: Carried, session: str) -> bool:
    """Whether it is of `session`, or of one that went on from it; old notebooks do not say."""
    return record.after is None or session in {record.meta.session, *record.after}


def whole(nb: Any, recording: Recording) -> Recording:
    """`recording`, which `nb` holds, or what it went on to. Raises RecordingError naming the repair, as `gone_on`."""
    try:
        return gone_on(nb, recording).recording
    except DoesNotFollowError as error:
        raise DoesNotFollowError(
            f"what its outputs carry does not follow its recording: {error} To have the recording alone: kin-nb save "
            f"NOTEBOOK.ipynb OUT.ipynb; all of it, where the log has it: kin-nb save {_newest(nb)} OUT.ipynb"
        ) from error
    except RecordingError as error:
        raise RecordingError(
            f"{error} All of it, where the log has it: kin-nb save {_newest(nb)} OUT.ipynb; to leave out what that cell's "
            "output carries, clear the output."
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


def _order(records: Sequence[Carried]) -> tuple[int, int]:
    """Of a session: after those that it went on from, whatever it showed again of them; of two that did, the upper first."""
    return max(len(each.after or ()) for each in records), min(each.cell for each in records)


def _goes_on(records: Sequence[Carried], last: tuple[int, int], session: str) -> bool:
    """Whether they came after `last`, the last turn and undo that are known of `session`, in this or in one that went on from
    it. That one may show again what it took over.
    """
    first, took = min(each.place for each in records), records[0].took
    if records[0].meta.session != session and took is not None:
        return session in (records[0].after or ()) and all(
            known <= there for known, there in zip(last, took, strict=True)
        )
    if any(each.meta.session != session and each.after is None for each in records):  # an old notebook
        return first == last[0]
    # a turn that a session took over from another may have been brought from the log as its own
    return first >= last[0] and any(session in {each.meta.session, *(each.after or ())} for each in records)


def _undone_by(nb: Any, following: Mapping[Named, Carried], undos: Mapping[int, UndoRecord]) -> dict[str, Card]:
    """By the id of a cell, what it undid last."""
    cards = {following[undo.type, n].cell: (undo, n) for n, undo in undos.items() if (undo.type, n) in following}
    return {
        str(nb["cells"][cell - 1].get("id")): (undo, {KEY: following[undo.type, n].kept})
        for cell, (undo, n) in cards.items()
    }


def _shown(nb: Any, records: Collection[Carried]) -> dict[str, int]:
    turns = sorted((each for each in records if each.type == "turn"), key=lambda each: each.cell)
    cells = [(nb["cells"][each.cell - 1], each) for each in turns]
    return {
        str(cell["id"]): each.named[1]
        for cell, each in cells
        if cell.get("id") and each.record.get("key") == asked_key(nb, cell)
    }


def _latest(nb: Any, following: Mapping[Named, Carried]) -> dict[str, int]:
    ids = {number: nb["cells"][each.cell - 1].get("id") for (kind, number), each in following.items() if kind == "turn"}
    return {ids[number]: number for number in sorted(ids) if ids[number]}


def _cards(following: Mapping[Named, Carried], undos: Mapping[int, UndoRecord]) -> dict[int, list[Card]]:
    """Those of `undos` that stand in the cell of a turn, by that turn."""
    cells = {each.cell: number for (kind, number), each in following.items() if kind == "turn"}
    cards: dict[int, list[Card]] = {}
    for number, undo in undos.items():
        card = following.get((undo.type, number))
        if card is not None and card.cell in cells:
            cards.setdefault(cells[card.cell], []).append((undo, {KEY: card.kept}))
    return cards
