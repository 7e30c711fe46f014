"""The model's reply as a card."""

from __future__ import annotations

from kin_nb.core.session.records import RecordedStep
from kin_nb.render.markdown import markdown_html
from kin_nb.render.output import Output
from kin_nb.render.text import clean, count, line_count


def render_reply(step: RecordedStep, *, turn: int, number: int) -> Output:
    """Text as HTML, reasoning folded above it. text/plain is the Markdown; the reasoning only when there is no text."""
    text, reasoning = clean(step.content).strip(), clean(step.reasoning).strip()
    parts = []
    if reasoning:
        head = f"Reasoning, {count(line_count(reasoning), 'line')}"
        parts.append(f"<details><summary>{head}</summary>\n{markdown_html(reasoning)}</details>\n")
    if text:
        parts.append(markdown_html(text))
    html = f'<div role="group" class="mathjax_ignore" aria-label="reply">\n{"".join(parts)}</div>'
    plain = text or f"[reasoning]\n{reasoning}"
    return Output.of(html, plain, kind="reply", turn=turn, step=number, seconds=round(step.milliseconds / 1000, 3))
