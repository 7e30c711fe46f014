"""The last card of a turn: what it took, in the record's own figures, so that playback shows the same."""

from __future__ import annotations

from kin_nb.core.modes import AgentMode
from kin_nb.core.session.records import TurnRecord
from kin_nb.render.next_step import next_step
from kin_nb.render.output import AMBER, BLUE, GREEN, RED, Output, frame
from kin_nb.render.text import clean, clip, count, escape, one_line

_COLORS = {"running": BLUE, "done": GREEN, "stopped": AMBER, "interrupted": AMBER, "error": RED}


def render_receipt(record: TurnRecord) -> Output:
    """The mode unless it is the default one, steps, tool calls, tokens, cost (USD, when known), duration and outcome.

    Then what to do next, and warnings.
    """
    message, todo = (clip(clean(part).strip()) for part in next_step(record))
    outcome = f"{record.outcome}: {message}" if message else record.outcome
    next_line = [f"Next: {todo}"] if todo else []
    warnings = [f"warning: {clip(clean(warning).strip())}" for warning in record.warnings]
    text = "\n".join([" · ".join([*_figures(record), outcome]), *next_line, *warnings])
    lines = escape(text).replace("\n", "<br>\n")
    return Output.of(
        frame(f"<small>{lines}</small>", label="receipt", color=_COLORS[record.outcome]),
        text,
        kind="receipt",
        turn=record.turn,
        status=record.outcome,
        model=one_line(record.model) or None,
        seconds=round(record.milliseconds / 1000, 3),
    )


def _figures(record: TurnRecord) -> list[str]:
    figures = [] if record.mode == AgentMode.DEFAULT else [f"{one_line(_mode(record.mode))} mode"]
    figures.append(count(len(record.steps), "step"))
    if record.calls:
        figures.append(count(len(record.calls), "tool call"))
    if record.prompt_tokens or record.completion_tokens:
        figures.append(f"{record.prompt_tokens:,} tokens in, {record.completion_tokens:,} out")
    if record.cost and (record.prompt_tokens or record.completion_tokens):
        figures.append(f"${one_line(record.cost)}")
    figures.append(_duration(record.milliseconds))
    return figures


def _mode(recorded: str) -> str:
    """As it is written on command lines; a custom mode by its own name."""
    return AgentMode(recorded).shown if recorded in set(AgentMode) else recorded


def _duration(milliseconds: int) -> str:
    """`8.2 s`, `2 min 05 s`."""
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{milliseconds / 1000:.1f} s"
