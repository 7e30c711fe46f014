"""The displays of a whole turn, and its cards other than those of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedCompaction, RecordedDMail, RecordedStep, StopReason, TurnRecord
from kin_nb.core.stopping import ADVICE
from kin_nb.core.text import counted
from kin_nb.render.call import render_call
from kin_nb.render.card import AMBER, BLUE, GREEN, GREY, RED, Output, card
from kin_nb.render.images import render_images, render_prompt_images
from kin_nb.render.markdown import markdown_html
from kin_nb.render.text import (
    clean,
    clip,
    escape,
    fill,
    indent,
    inline_code_html,
    join,
    line_count,
    one_line,
    pre,
    reveal_hidden,
)


def render_turn(record: TurnRecord) -> list[Output]:
    """Return all displays of a turn, in order (nbval compares the order).

    Attachments; then per step: its compaction, notes, the reply, its calls in order, and the pictures of the calls; at the
    end a compaction that no reply followed, and the summary line. Parts that a turn does not have are left out.
    """
    outputs = [*render_attachments(record), *render_prompt_images(record)]
    for number, step in enumerate(record.steps, 1):
        if step.compaction is not None:
            outputs.append(render_compaction(step.compaction, turn=record.turn, step=number))
        outputs += render_step_notes(step, turn=record.turn, number=number)
        if step.content.strip() or step.reasoning.strip():
            outputs.append(render_reply(step, turn=record.turn, number=number))
        outputs += [render_call(call, turn=record.turn, step=number) for call in step.calls]
        outputs += [image for call in step.calls for image in render_images(call, turn=record.turn, step=number)]
    if record.compaction is not None:
        outputs.append(render_compaction(record.compaction, turn=record.turn, step=len(record.steps) + 1))
    return [*outputs, render_summary_line(record)]


_MOST_LABELS = 20


def render_attachments(record: TurnRecord) -> list[Output]:
    """Return the card of the attachments, if any: `sent: df (3 columns, 1.2 KB), src/a.py`."""
    if not record.attached:
        return []
    labels = [one_line(label, 200) for label in record.attached[:_MOST_LABELS]]
    more = len(record.attached) - _MOST_LABELS
    others = f" and {counted(more, 'other')}" if more > 0 else ""
    line = f"sent: {', '.join(labels)}{others}"
    html = card(fill("<small>{}</small>", escape(line)), label="sent with the prompt")
    return [Output.of(html, line, kind="sent", turn=record.turn)]


_LONGEST_REMINDER = 1_000


def render_step_notes(step: RecordedStep, *, turn: int, number: int) -> list[Output]:
    """Return the cards above a reply, at most three; `metadata["kin"]["kind"]` distinguishes them."""
    outputs = []
    if step.pruned:
        old = counted(len(step.pruned), "old tool result")
        outputs.append(_quiet(f"{old} shortened, to fit the context window", kind="pruned", turn=turn, step=number))
    if step.dmail is not None:
        outputs.append(_dmail(step.dmail, turn=turn, step=number))
    if reminder := one_line(step.reminder, _LONGEST_REMINDER):
        outputs.append(_quiet(f"kin_nb to the model: {reminder}", kind="told", turn=turn, step=number))
    return outputs


def _quiet(line: str, *, kind: Literal["pruned", "told"], turn: int, step: int) -> Output:
    html = card(fill("<small>{}</small>", escape(line)), label=kind, color=GREY)
    return Output.of(html, f"[{line}]", kind=kind, turn=turn, step=step)


def _dmail(mail: RecordedDMail, *, turn: int, step: int) -> Output:
    head = f"Rewind (D-Mail): back to before step {mail.step}, with this message"
    message = clip(reveal_hidden(mail.message.strip()))
    html = card(fill("<b>{}:</b>", escape(head)), pre(message), label="D-Mail", color=AMBER)
    return Output.of(html, f"[{head}]\n{indent(message)}", kind="dmail", turn=turn, step=step)


def render_reply(step: RecordedStep, *, turn: int, number: int) -> Output:
    """Return the reply as HTML, with collapsed reasoning above it. text/plain is the Markdown, or else the reasoning."""
    text, reasoning = clean(step.content).strip(), clean(step.reasoning).strip()
    parts = []
    if reasoning:
        head = f"Reasoning, {counted(line_count(reasoning), 'line')}"
        drawn = markdown_html(reasoning)
        parts.append(fill("<details><summary>{}</summary>\n{}</details>\n", escape(head), drawn))
    if text:
        parts.append(markdown_html(text))
    html = fill('<div role="group" class="mathjax_ignore" aria-label="reply">\n{}</div>', join("", parts))
    plain = text or f"[reasoning]\n{reasoning}"
    return Output.of(html, plain, kind="reply", turn=turn, step=number, seconds=round(step.milliseconds / 1000, 3))


def render_compaction(compaction: RecordedCompaction, *, turn: int, step: int) -> Output:
    """Return the card of a compaction: the sizes, and the collapsed summary. text/plain has both."""
    fact = f"conversation compacted: {compaction.old_tokens:,} tokens became {compaction.new_tokens:,}"
    if compaction.summarised:
        messages = "message" if compaction.summarised == 1 else "messages"
        fact += f"; {compaction.summarised:,} {messages} summarized, {compaction.kept:,} kept"
    summary = clean(compaction.summary).strip()
    html = card(fill("<small>{}</small>", escape(fact)), markdown_html(summary), label="compaction", unfolded=False)
    return Output.of(html, f"[{fact}]\n{summary}", kind="compaction", turn=turn, step=step)


_COLORS = {"running": BLUE, "done": GREEN, "stopped": AMBER, "interrupted": AMBER, "error": RED}


def render_summary_line(record: TurnRecord) -> Output:
    """Return the last line of a cell: mode (unless default), requests, tool calls, tokens, cost (USD), duration, outcome.

    Below it are the next step for the user, and warnings.
    """
    message, todo = (clip(clean(part).strip()) for part in next_step(record))
    outcome = f"{record.outcome}: {message}" if message else record.outcome
    next_line = [f"Next: {todo}"] if todo else []
    warnings = [f"warning: {clip(clean(warning).strip())}" for warning in record.warnings]
    text = "\n".join([" · ".join([*_figures(record), outcome]), *next_line, *warnings])
    lines = join("<br>\n", map(inline_code_html, text.split("\n")))
    return Output.of(
        card(fill("<small>{}</small>", lines), label="summary line", color=_COLORS[record.outcome]),
        text,
        kind="receipt",
        turn=record.turn,
        status=record.outcome,
        model=one_line(record.model) or None,
        seconds=round(record.milliseconds / 1000, 3),
    )


def _figures(record: TurnRecord) -> list[str]:
    figures = [] if record.mode == AgentMode.DEFAULT else [f"{one_line(_mode(record.mode))} mode"]
    figures.append(counted(len(record.steps), "model request"))
    if record.calls:
        figures.append(counted(len(record.calls), "tool call"))
    if record.prompt_tokens or record.completion_tokens:
        figures.append(f"{record.prompt_tokens:,} tokens in, {record.completion_tokens:,} out")
    if record.cost and (record.prompt_tokens or record.completion_tokens):
        figures.append(f"${one_line(record.cost)}")
    figures.append(_duration(record.milliseconds))
    return figures


def _mode(recorded: str) -> str:
    """Return the mode as it is spelled on command lines; a custom mode has its own name."""
    return AgentMode(recorded).shown if recorded in set(AgentMode) else recorded


def _duration(milliseconds: int) -> str:
    """`8.2 s`, `2 min 05 s`."""
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{milliseconds / 1000:.1f} s"


_GO_ON: Mapping[StopReason, str] = {
    "max_steps": "write `continue` in a new cell, or raise max_steps_per_turn in config.toml",
    "max_turns": "write `continue` in a new cell, with a higher limit or none: `%%kin --max-requests 20`",
    "price": "write `continue` in a new cell with a higher limit: `%%kin --max-price USD` for that cell, "
    "`%config KinMagics.max_price = USD` for all",
    "loop": "write what to do instead in a new cell",
    "cut_off": "write `continue` in a new cell, or raise max_tokens of the model in config.toml",
    "refused": "write what to do instead in a new cell",
}
"""What to do after a stop, in a notebook: it replaces the advice in the record's message (core/stopping.py)."""


def next_step(record: TurnRecord) -> tuple[str, str]:
    """Split the record's message into (what happened, what to do). Either may be ""."""
    message = record.message.strip()
    match record.outcome:
        case "stopped":
            return _after_stop(record, message)
        case "error":
            return _after_error(record, message)
        case "interrupted":
            changed = any(call.files for call in record.calls)  # what is uncovered alone does not come back
            return message, f"continue in a new cell{', or undo its changes: `%kin undo`' if changed else ''}"
    return message, ""


def _after_stop(record: TurnRecord, message: str) -> tuple[str, str]:
    if record.stop_reason not in _GO_ON:
        return message, ""
    advice = ADVICE.get(record.stop_reason, "")
    return message.removesuffix(f"; {advice}") if advice else message, _GO_ON[record.stop_reason]


def _after_error(record: TurnRecord, message: str) -> tuple[str, str]:
    """Split the error of a model server or of a compaction: its two lines are what happened and what to do."""
    what, *todo = message.split("\n")
    if len(todo) == 1 and record.stop_reason != "crash":
        return what, todo[0]
    return message, ""
