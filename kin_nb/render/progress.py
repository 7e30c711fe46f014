"""The line that says what takes so long. It gives way to whatever comes next, so nothing of it stays."""

from __future__ import annotations

from kin_nb.render.output import GREY, Output, frame
from kin_nb.render.text import escape, one_line


def render_progress(what: str, seconds: int, figures: str) -> Output:
    """`what`: the step and what it waits for. `figures`: tokens and cost so far, in words; may be ""."""
    line = " · ".join(filter(None, [one_line(what), f"{seconds} s" if seconds else "", figures]))
    return Output.of(frame(f"<small>{escape(line)}</small>", label="progress", color=GREY), line, kind="progress")
