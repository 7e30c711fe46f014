"""What a person reads before deciding: one line, why it asks, and the whole of it, uncut."""

from __future__ import annotations

from kin_nb.core.safety.decision import Risk
from kin_nb.render.diff import diff_text, render_diff
from kin_nb.render.highlight import code_html, highlighted
from kin_nb.render.output import AMBER, frame
from kin_nb.render.text import WRAPPED, count, escape, indent, line_count, literal, one_line, pre

_KINDS = {"command": "command", "diff": "change", "arguments": "call", "code": "code"}
_OPEN_LINES = 40
_HIGH = "high risk"
_CLAIM = "What its server says of it, unchecked:"
_LONGEST_CLAIM = 600


def approval_html(
    summary: str, reason: str, body: str, kind: str, risk: Risk = Risk.LOW, *, claim: str = "", folded: bool = False
) -> str:
    """The static part of the approval card; the buttons are the widget's, and name the scopes on offer.

    `kind` is `Preview.kind`: what `body` is. Only a high `risk` is said. `claim` is `Preview.claim`: it is cut, and shown
    as text. `folded`: the card shows `body` in parts below.
    """
    whole = _whole(body, kind)
    lines = line_count(body.removesuffix("\n"))
    unfolded = " open" if lines <= _OPEN_LINES and not folded else ""
    fact = _fact(summary, body, kind)
    parts = [f'<b>Allow this?</b> <code style="{WRAPPED}">{escape(fact)}</code><br>\n']
    high = f" (<b>{_HIGH}</b>)" if risk is Risk.HIGH else ""
    parts.append(f"Asks because: {escape(one_line(reason, 400))}{high}<br>\n")
    if claim.strip():
        words = escape(one_line(claim, _LONGEST_CLAIM))
        parts.append(f'{_CLAIM} <code style="{WRAPPED}">{words}</code><br>\n')
    if not _says_it_all(fact, body):
        head = f"The whole {_KINDS.get(kind, 'call')}, {count(lines, 'line')}"
        parts.append(f"<details{unfolded}><summary>{head}</summary>\n{whole}</details>\n")
    return frame("".join(parts), label="approval", color=AMBER)


def approval_text(summary: str, reason: str, body: str, kind: str, risk: Risk = Risk.LOW, *, claim: str = "") -> str:
    """The same for the stdin prompt. How to answer is the prompt's own line: it knows which answers it takes."""
    high = f" ({_HIGH})" if risk is Risk.HIGH else ""
    fact = _fact(summary, body, kind)
    parts = [f"Allow this? {fact}", f"  Asks because: {one_line(reason, 400)}{high}"]
    if claim.strip():
        parts.append(f"  {_CLAIM} {one_line(claim, _LONGEST_CLAIM)}")
    if not _says_it_all(fact, body):
        parts.append(indent(diff_text(body) if kind == "diff" else literal(body.removesuffix("\n"))))
    return "\n".join(parts)


def _whole(body: str, kind: str) -> str:
    if kind == "diff":
        return render_diff(body)
    return code_html(highlighted(literal(body), "python")) if kind == "code" else pre(literal(body))


def _fact(summary: str, body: str, kind: str) -> str:
    """A command of one line is said once, and whole; else the summary."""
    line = body.removesuffix("\n")
    return literal(line) if kind == "command" and line and "\n" not in line else one_line(summary)


def _says_it_all(fact: str, body: str) -> bool:
    return literal(body.removesuffix("\n")) == fact or not body.strip()
