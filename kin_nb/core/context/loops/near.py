"""Near repeats: calls that hardly differ and bring hardly anything new. Careful: a wrong word here disturbs good work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from kin_nb.core.context.loops.call import Call, differing, vary_only
from kin_nb.core.context.loops.similarity import Similarity

_SUBSTANCE = 200
"""A shorter result ("Edited a.py: 1 line.") is like many others and says nothing, unless the call failed."""
_NEWS = 3
"""Lines that the result before did not have: with more of them a call brings something."""
_ARGUMENTS = 0.9
_RESULTS = 0.8
"""Likeness of results when the arguments differ in numbers alone (`sed -n 1,10p`, `sed -n 2,11p`)."""
_RESULTS_OF_OTHER_WORDS = 0.95
"""When they differ in words (`grep foo`, `grep 'foo\\b'`)."""


def alike_by(similarity: Similarity) -> Callable[[Call, Call], bool]:
    """The same call is alike when its results differ in times and the like alone, and these do not count: that is polling.

    Calls about different files or addresses never are, however alike these: that is going through them one by one. Nor
    are those with other numbers that have an outcome each: the same lines, but for a few that say something else.
    """

    def alike(before: Call, now: Call) -> bool:
        if before.name != now.name or now.counts:
            return False
        if before.arguments == now.arguments:
            return before.key == now.key or vary_only(before, now)
        if not (_says_something(before) and _says_something(now)) or len(now.lines - before.lines) > _NEWS:
            return False
        if before.subjects != now.subjects or _has_another_outcome(before, now):
            return False
        least = _RESULTS
        if before.shape != now.shape:
            least = _RESULTS_OF_OTHER_WORDS
            if similarity.of(before.arguments, now.arguments) < _ARGUMENTS:
                return False
        return similarity.of(before.result, now.result) >= least

    return alike


def _says_something(call: Call) -> bool:
    return not call.ok or len(call.result) >= _SUBSTANCE


def _has_another_outcome(before: Call, now: Call) -> bool:
    """Lines in the places of others: a window that moves over a file shows the same ones, elsewhere."""
    if not now.ok or len(before.rows) != len(now.rows):
        return False
    rows = list(islice(differing(before, now), _NEWS + 1))
    return len(rows) <= _NEWS and any(
        before.without_own_numbers(before.steady(row)) != now.without_own_numbers(now.steady(row)) for row in rows
    )
