"""Two recordings that went on from one, joined (docs/session-notebook.md): values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from kin_nb.core.context.checkpoints import KEPT_TURNS, end_of
from kin_nb.core.session.records import Place, TurnRecord, UndoRecord
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.merging.taking_back import take_back
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.standing import last_place, standing_turns

Event: TypeAlias = TurnRecord | UndoRecord
How = Literal["same", "a", "b", "fork"]
Side = Literal["a", "b"]


@dataclass(frozen=True)
class Merged:
    """`how`: both did the same; only one side went on; or both did. `first`: whose turns and cells come first.

    `numbers`: of the other side's turns, number there -> number here; also of those that both have.
    """

    recording: Recording
    how: How
    first: Side
    numbers: Mapping[int, int]
    taken_back: tuple[int, ...] = ()
    """The turns that the fork takes back, so that the other side's follow what they followed."""


def merge_recordings(base: Recording, a: Recording, b: Recording) -> Merged:
    """What both added to `base`. Raises ReplayError, naming the turn, when a side changed what `base` has."""
    start, ours, theirs = map(_events, (base, a, b))
    _check_goes_on("A", start, ours)
    _check_goes_on("B", start, theirs)
    shared = _alike(ours, theirs)
    meta, others = _meta(base, a, b), tuple(dict.fromkeys((*a.others, *b.others)))
    if shared == len(theirs):
        how: How = "same" if shared == len(ours) else "a"
        return Merged(replace(a, session=meta.session, meta=meta, others=others), how, "a", _as_they_are(b))
    if shared == len(ours):
        return Merged(replace(b, session=meta.session, meta=meta, others=others), "b", "a", _as_they_are(b))
    orders: tuple[tuple[Side, list[Event], list[Event]], ...] = (("a", ours, theirs), ("b", theirs, ours))
    for first, one, other in orders:
        fork = _fork(one[:shared], one[shared:], other[shared:])
        if fork is not None:
            turns, undos = _split(fork.events)
            recording = Recording(meta.session, tuple(turns), meta, others, tuple(undos))
            return Merged(recording, "fork", first, fork.numbers, fork.taken_back)
    raise ReplayError(
        "A and B cannot follow each other: each took back what the other goes on from, gave back what was taken, or went on "
        f"for {KEPT_TURNS} turns. Keep them as two notebooks; kin-nb diff shows them side by side."
    )


def _as_they_are(recording: Recording) -> dict[int, int]:
    return {turn.turn: turn.turn for turn in recording.turns}


def _events(recording: Recording) -> list[Event]:
    """Turns and undos in the order in which they happened."""
    events: list[Event] = []
    for position, turn in enumerate(recording.turns, 1):
        events += [turn, *(undo for undo in recording.undos if undo.at == position)]
    return events


def _split(events: Sequence[Event]) -> tuple[list[TurnRecord], list[UndoRecord]]:
    turns = [event for event in events if isinstance(event, TurnRecord)]
    return turns, [event for event in events if isinstance(event, UndoRecord)]


def _alike(one: Sequence[Event], other: Sequence[Event]) -> int:
    """How many events they have in common at the beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if _content(x) != _content(y)), min(len(one), len(other)))


def _content(event: Event) -> Event:
    """Which cell asked is the notebook's business: saving may have moved it."""
    return event.model_copy(update={"cell_id": None, "key": ""}) if isinstance(event, TurnRecord) else event


def _check_goes_on(side: str, base: Sequence[Event], events: Sequence[Event]) -> None:
    same = _alike(base, events)
    if same == len(base):
        return
    event = base[same]
    what = f"turn {event.turn}" if isinstance(event, TurnRecord) else f"the {event.type} after turn {event.at}"
    raise ReplayError(
        f"{side} does not go on from BASE: {what} of BASE "
        + (f"is not what {side} has there (redone, redacted or edited). " if same < len(events) else "is not there. ")
        + f"Name a BASE that {side} went on from: the notebook as it was before the two parted."
    )


@dataclass(frozen=True)
class _Fork:
    events: list[Event]
    numbers: dict[int, int]
    taken_back: tuple[int, ...]


def _fork(head: Sequence[Event], one: Sequence[Event], other: Sequence[Event]) -> _Fork | None:
    """`one` after `head`, taken back, then `other`; None where no undo can lead back to where `other` goes on from."""
    events = [*head, *one]
    turns, undos = _split(events)
    common, before = _split(head)[0], standing_turns(*_split(head))
    new = standing_turns(turns, undos)[len(before) :]
    added = len(turns) - len(common)
    into = {undo.to.turn for undo in _split(other)[1] if undo.to.step > 0}  # checkpoints of steps are of the last turn
    too_far = added >= KEPT_TURNS or (added and into & {turn.turn for turn in common})
    if standing_turns(turns, undos)[: len(before)] != before or too_far:
        return None
    if new:
        events.append(take_back(new, len(turns)))
    shift = turns[-1].turn - common[-1].turn if common else turns[-1].turn
    numbers = {turn.turn: turn.turn for turn in common}
    numbers |= {turn.turn: turn.turn + shift for turn in _split(other)[0]}
    events += _with_origin(head, other, _moved(other, numbers, added), new)
    return _Fork(events, numbers, tuple(turn.turn for turn in new)) if _redoes_what_was_undone(events) else None


def _with_origin(
    head: Sequence[Event], other: Sequence[Event], moved: list[Event], new: Sequence[TurnRecord]
) -> list[Event]:
    """`moved`, which was `other`; its first turn says that it goes on from `head`: the turn before it is another one now.

    Checkpoints of steps are not kept: after one of them it goes on from before the first of the turns in between.
    """
    for n, event in enumerate(other):
        if isinstance(event, TurnRecord):
            turns, undos = _split([*head, *other[:n]])
            place = event.origin or last_place(turns, undos) or end_of(turns)
            if new and (place is None or place.step > 0):
                place = Place(turn=new[0].turn)
            moved[n] = moved[n].model_copy(update={"origin": place})
            break
    return moved


def _moved(events: Sequence[Event], numbers: Mapping[int, int], added: int) -> list[Event]:
    """With `numbers` for those that they had, after `added` more turns."""

    def place(old: Place) -> Place:
        return old.model_copy(update={"turn": numbers.get(old.turn, old.turn)})

    moved: list[Event] = []
    for event in events:
        if isinstance(event, UndoRecord):
            turns = tuple(numbers.get(turn, turn) for turn in event.turns)
            update = {"at": event.at + added, "turns": turns, "to": place(event.to)}
        else:
            update = {"turn": numbers[event.turn], "origin": place(event.origin) if event.origin else None}
        moved.append(event.model_copy(update=update))
    return moved


def _redoes_what_was_undone(events: Sequence[Event]) -> bool:
    undone: list[tuple[int, ...]] = []
    for event in events:
        if isinstance(event, TurnRecord):
            undone.clear()
        elif event.type == "undo":
            undone.append(event.turns)
        elif not undone or undone.pop() != event.turns:
            return False
    return True


def _meta(base: Recording, a: Recording, b: Recording) -> SessionMeta:
    """A's, but for what only B changed."""
    names = [name for name in SessionMeta.model_fields if getattr(a.meta, name) == getattr(base.meta, name)]
    return a.meta.model_copy(update={name: getattr(b.meta, name) for name in names})
