"""What the conversation is after a record: outputs may lack turns of it, and what came later goes on from those that are there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

from pydantic import NonNegativeInt, PositiveInt

from kin_nb.core.context.checkpoints import branch, led_to
from kin_nb.core.session.records import Place, Record, TurnRecord

Run = tuple[PositiveInt, PositiveInt]
"""The first and the last of turns that follow each other."""


class Stood(Record):
    """`turns`: those of the conversation, in order. `began`: the first one after the last clear; 0 for none.

    That one may have been taken back since, and is none of `turns` then: the conversation is still cleared.
    """

    turns: tuple[Run, ...] = ()
    began: NonNegativeInt = 0

    @classmethod
    def of(cls, turns: Sequence[TurnRecord], tip: Place | None) -> Self:
        """At `tip` of a session's `turns`; None: after the last."""
        runs: list[tuple[int, int]] = []
        for turn in branch(turns, tip):
            first = runs.pop()[0] if runs and runs[-1][1] == turn.turn - 1 else turn.turn
            runs.append((first, turn.turn))
        return cls(turns=tuple(runs), began=next((turn.turn for turn, _ in led_to(turns, tip) if turn.fresh), 0))

    def last(self, known: Sequence[int], below: float) -> int:
        """The last turn below that number which is among `known`, rising; 0 for none."""
        for first, last in reversed(self.turns):
            at = bisect_right(known, min(last, below - 1))
            if at and known[at - 1] >= first:
                return known[at - 1]
        return 0

    def between(self, after: int, below: int) -> tuple[Run, ...]:
        """The turns between those two."""
        runs = ((max(first, after + 1), min(last, below - 1)) for first, last in self.turns)
        return tuple(run for run in runs if run[0] <= run[1])
