"""Turns whose outputs are gone, since their cells were run again: where those that went on from them stand then."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.session.records import END, Place, TurnRecord, UndoRecord


def relinked(turns: Sequence[TurnRecord], undos: Sequence[UndoRecord]) -> tuple[TurnRecord, ...]:
    """`turns`, in order; one that went on from a turn which is not there goes on after the last that stood before that.

    `undos`, in order, may be of missing turns too. Linear.
    """
    known = {turn.turn for turn in turns}
    missing = {turn.origin.turn for turn in turns if turn.origin is not None} - known - {0}
    stood = _stood_before(sorted(missing), [turn.turn for turn in turns], undos) if missing else {}
    found = list(turns)
    for position, turn in enumerate(turns):
        if turn.origin is not None and turn.origin.turn in missing:
            last, before = stood[turn.origin.turn], turns[position - 1].turn if position else 0
            origin = Place(turn=last, step=END) if last else Place(turn=turns[0].turn)  # before that: the beginning
            found[position] = turn.model_copy(update={"origin": None if last == before else origin})
    return tuple(found)


def _stood_before(places: Sequence[int], numbers: Sequence[int], undos: Sequence[UndoRecord]) -> dict[int, int]:
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
