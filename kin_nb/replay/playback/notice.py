"""What playback says besides what was recorded: of a notebook, and of a cell whose text is not the one that was answered."""

from __future__ import annotations

import difflib

from kin_nb.core.commands import escaped
from kin_nb.core.records import TurnRecord
from kin_nb.render import Output, render_notice
from kin_nb.render.text import count, literal
from kin_nb.replay.cells import normal_body
from kin_nb.replay.recording import Recording

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


def playback_notice(recording: Recording) -> Output:
    """What `%kin replay` shows in playback, and what save writes as that cell's output: the same bytes."""
    model, version = recording.meta.model, recording.meta.kin_nb
    lines = [
        f"{count(_records_saved(recording), 'record')}"
        + (f", made with {model}" if model else "")
        + (f" by kin_nb {version}." if version else "."),
        "This notebook is in playback: no model is called, no tool runs, no file is written.",
        "To run the tools for real, in a copy of the workspace: kin-nb replay --tools. To ask a model again: %kin live",
    ]
    if recording.other_types:
        lines.append(f"Written by a later kin_nb, kept but not played: {', '.join(recording.other_types)}.")
    return render_notice(f"Session {recording.session}", lines)


def _records_saved(recording: Recording) -> int:
    """As the save counted them, whatever was deleted or pasted since: what a replay compares must not change with that."""
    return len(recording.shas if recording.listed is None else recording.listed)
