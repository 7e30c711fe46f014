"""Turns whose outputs are gone, since their cells were run again or deleted: where what came after them stands then."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from kin_nb.core.session.records import END, Place, TurnRecord, UndoRecord
from kin_nb.replay.errors import DoesNotFollowError
from kin_nb.replay.format.stood import Run, Stood


@dataclass(frozen=True)
class Relinked:
    """`turns`, and by number `undos`, whose `at` is a count again. `lost`: by turn, those before it that are not there.

    `cleared`: in the end the conversation was cleared, and what came after that is not there.
    """

    turns: Sequence[TurnRecord]
    undos: Mapping[int, UndoRecord]
    lost: Mapping[int, Sequence[Run]]
    cleared: bool = False


def relinked(
    turns: Sequence[TurnRecord],
    undos: Mapping[int, UndoRecord],
    stood: Mapping[tuple[str, int], Stood],
    recorded: Collection[int] = (),
) -> Relinked:
    """`turns`, in order, and of `undos`, by number, those that took back or gave back one, as they stand among these.

    The undos are `numbered`. `stood`: of a record, by type and number, what the conversation was after it; of one without that
    what it goes on from must be there, or it is among `recorded`, the numbers of a recording's turns. Raises DoesNotFollowError
    where it is not. Linear.
    """
    chain = _Chain([turn.turn for turn in turns], recorded)
    found, lost = [], {}
    for turn in turns:
        after = stood.get(("turn", turn.turn))
        found.append(chain.add(turn, after))
        gone = after.between(chain.before[turn.turn], turn.turn) if after is not None else ()
        if gone:
            lost[turn.turn] = gone
    held = {
        n: undo for n in sorted(undos) if (undo := chain.placed(undos[n], stood.get((undos[n].type, n)))) is not None
    }
    return Relinked(found, held, lost, chain.cleared)


def numbered(undo: UndoRecord, turns: Sequence[TurnRecord]) -> UndoRecord:
    """As outputs carry it: they may lack some of `turns`, so its `at` is the number of the turn before it, not a count."""
    return undo.model_copy(update={"at": turns[undo.at - 1].turn})


@dataclass
class _Chain:
    """`numbers`: of the turns that are there, rising. `before`: of each that was added the one that it goes on from, 0 for none."""

    numbers: Sequence[int]
    recorded: Collection[int]
    before: dict[int, int] = field(default_factory=dict)
    cleared: bool = False
    """After the last undo, if no turn came later."""
    _cleared: set[int] = field(default_factory=set)
    """Turns before which the conversation was cleared."""
    _left: tuple[int, int] = (0, 0)
    """How many turns there were at the last undo, and the last turn of the conversation after it."""

    def add(self, turn: TurnRecord, after: Stood | None) -> TurnRecord:
        at = bisect_left(self.numbers, turn.turn)
        above = self.numbers[at - 1] if at else 0
        named = above if turn.origin is None else self._tip(turn.origin)
        if after is None:
            gap = turn.origin is None and above != turn.turn - 1
            if named is None or (gap and turn.turn not in self.recorded):
                raise DoesNotFollowError(f"the outputs carry turn {turn.turn}, and not all before it.")
            self.before[turn.turn] = named
            return turn
        last = self.before[turn.turn] = after.last(self.numbers, turn.turn)
        update: dict[str, object] = {}
        origin = turn.origin
        if named != last:
            origin = update["origin"] = None if last == above else self._end(last)
        cleared = turn.fresh or (origin is not None and origin.step == 0 and origin.turn in self._cleared)
        if last < after.began < turn.turn and not cleared:  # with a turn that is not there
            cleared = update["fresh"] = True
        if cleared:
            self._cleared.add(turn.turn)
        return turn.model_copy(update=update) if update else turn

    def placed(self, undo: UndoRecord, after: Stood | None) -> UndoRecord | None:
        """None where it moved nothing of what is there."""
        at = bisect_right(self.numbers, undo.at)
        if not at and (undo.at > 0 or not self.numbers):
            return None
        stood = self._left[1] if self._left[0] == at else self.numbers[at - 1]
        named = self._tip(undo.to)
        last = named if after is None else after.last(self.numbers, inf)
        self.cleared = after is not None and at == len(self.numbers) and after.began > (last or 0)
        if last == stood and self.before.keys().isdisjoint(undo.turns):
            return None
        if last is None:
            raise DoesNotFollowError("the outputs do not carry all that was undone.")
        self._left = at, last
        return undo.model_copy(update={"at": at, "to": undo.to if named == last else self._end(last)})

    def _tip(self, place: Place) -> int | None:
        """The last turn of the conversation at `place`, 0 for none; None where that is not known."""
        return self.before.get(place.turn) if place.step == 0 else place.turn if place.turn in self.before else None

    def _end(self, last: int) -> Place:
        """After turn `last`; 0: at the beginning."""
        return Place(turn=last, step=END) if last else Place(turn=self.numbers[0])
