"""A cell in playback whose text is not the one that was answered: what differs, and what to do."""

from __future__ import annotations

import difflib

from kin_nb.core.commands import escaped
from kin_nb.core.session.records import TurnRecord
from kin_nb.render.text import literal
from kin_nb.replay.cells.matching import normal_body

_WIDTH = 100
_MOST_LINES = 12
_MOST_COMPARED = 1000
"""Lines: what takes longer to compare is not a prompt that anyone reads."""


def not_recorded(turn: TurnRecord, body: str) -> str:
    """What a cell with `body` says that was answered as `turn`, with another text."""
    recorded, now = escaped(turn.prompt), normal_body(body).strip("\n")
    what = "with another text:" if recorded != now else "with other options on the %%kin line."
    return "\n".join(
        [
            f"This notebook is in playback and calls no model; turn {turn.turn} was recorded in this cell, {what}",
            *difference(recorded, now),
            f"Restore the text to play it; or `%%kin --retry` to ask it anew, from where turn {turn.turn} was asked.",
        ]
    )


def difference(recorded: str, now: str) -> list[str]:
    """The lines that differ, `-` recorded and `+` now, one line around them; empty when none do."""
    before, after = (literal(text).split("\n")[:_MOST_COMPARED] for text in (recorded, now))
    found: list[str] = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1):
        for tag, a, a_end, b, b_end in group:
            old, new = before[a:a_end], after[b:b_end]
            if tag == "equal":
                found += [f"    {_cut(line, 0)}" for line in old]
                continue
            place = _first_difference(old[0], new[0]) if old and new else 0
            found += [f"  - {_cut(line, place)}" for line in old] + [f"  + {_cut(line, place)}" for line in new]
    more = len(found) - _MOST_LINES
    return found[:_MOST_LINES] + ([f"  ... {more} more"] if more > 0 else [])


def _first_difference(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _cut(line: str, place: int) -> str:
    """What a long line has around `place`."""
    start = max(0, place - _WIDTH // 2) if len(line) > _WIDTH else 0
    end = start + _WIDTH
    return f"{'…' if start else ''}{line[start:end]}{'…' if line[end:] else ''}"
