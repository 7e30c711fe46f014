"""Turns whose outputs are gone, since their cells were run again: where what came after them stands then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from kin_nb.core.session.records import END, Place, TurnRecord, UndoRecord


def relinked(
    turns: Sequence[TurnRecord], undos: Mapping[int, UndoRecord], *, parts: bool = False
) -> tuple[tuple[TurnRecord, ...], dict[int, UndoRecord]]:
    """`turns`, in order, and of `undos`, by number, those all of whose turns are there, in order; as they stand among these.

    With `parts` those too of whose turns only some are there: they take back these. What went on from a turn that is not
    there, or back to that, does so after the last that stood before it. Linear.
    """
    numbers = [turn.turn for turn in turns]
    known = set(numbers)
    last = max([*numbers[-1:], *(number for undo in undos.values() if parts for number in undo.turns)], default=0)
    held = {n: undos[n] for n in sorted(undos) if undos[n].at <= last and known.issuperset(undos[n].turns)}
    if parts:
        held = {n: held.get(n) or _of(undos[n], known) for n in sorted(undos) if n in held or _partly(undos[n], known)}
    origins = [turn.origin for turn in turns if turn.origin is not None]
    implied = {turn.turn - 1 for turn in turns if turn.origin is None}
    missing = {place.turn for place in [*origins, *(undo.to for undo in held.values())]}.union(implied) - known - {0}
    stood = _stood_before(sorted(missing), numbers, [undos[n] for n in sorted(undos)]) if missing else {}
    found = list(turns)
    for position, turn in enumerate(turns):
        before = turn.turn - 1 if turn.origin is None else turn.origin.turn
        if before in missing:
            follows = stood[before] == (numbers[position - 1] if position else 0)
            origin = None if follows else _end(stood[before], numbers)
            found[position] = turn.model_copy(update={"origin": origin})
    for n, undo in held.items():
        to = _end(stood[undo.to.turn], numbers) if undo.to.turn in missing else undo.to
        held[n] = undo.model_copy(update={"at": bisect_right(numbers, undo.at), "to": to})
    return tuple(found), held


def _partly(undo: UndoRecord, known: set[int]) -> bool:
    return any(number in known for number in undo.turns) and not known.issuperset(undo.turns)


def _of(undo: UndoRecord, known: set[int]) -> UndoRecord:
    return undo.model_copy(update={"turns": tuple(number for number in undo.turns if number in known)})


def _end(last: int, numbers: Sequence[int]) -> Place:
    """After turn `last`; 0: at the beginning."""
    return Place(turn=last, step=END) if last else Place(turn=numbers[0])


def _stood_before(places: Iterable[int], numbers: Sequence[int], undos: Sequence[UndoRecord]) -> dict[int, int]:
    """Of each of `places`, turns' numbers in order, the last turn before it that was not taken back; 0 for none."""
    turns: list[tuple[int, UndoRecord | None]] = [(number, None) for number in numbers]
    happened = sorted([*turns, *((undo.at, undo) for undo in undos)], key=lambda each: each[0])[::-1]  # a stable order
    stack: list[int] = []
    known, found = set(numbers), {}
    for place in places:
        while happened and happened[-1][0] < place:
            number, undo = happened.pop()
            if undo is None:
                stack.append(number)
            elif undo.type == "redo":
                stack += [each for each in undo.turns if each in known]
            else:
                gone = set(undo.turns)
                while stack and stack[-1] in gone:
                    stack.pop()
        found[place] = stack[-1] if stack else 0
    return found
