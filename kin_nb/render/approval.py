"""The text that a user reads before deciding on a call or answering a question, and the question in its call's card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kin_nb.core.safety.decision import Risk
from kin_nb.core.text import counted
from kin_nb.render.card import AMBER, BLUE, Output, card
from kin_nb.render.diff import diff_text, render_diff
from kin_nb.render.highlight import code_html, highlighted
from kin_nb.render.text import (
    NOTHING,
    WRAPPED,
    Attribute,
    Html,
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

_KINDS = {"command": "command", "diff": "change", "arguments": "call", "code": "code"}
_OPEN_LINES = 40
_HIGH = "high risk"
_CLAIM = "Its server says (not verified):"
_LONGEST_CLAIM = 600
_LONGEST_NOTE = 1_000


def approval_html(
    summary: str,
    reason: str,
    body: str,
    kind: str,
    risk: Risk = Risk.LOW,
    *,
    claim: str = "",
    note: str = "",
    folded: bool = False,
) -> Html:
    """Return the static part of the approval card. The widget adds the buttons, which name the offered scopes.

    `kind` is `Preview.kind`: what `body` is. Only a high `risk` is shown. `claim` is `Preview.claim`: it is cut, and shown
    as text. `note` is `Preview.note`. `folded`: the card shows `body` in parts below.
    """
    whole = _whole(body, kind)
    lines = line_count(body.removesuffix("\n"))
    opened = Attribute(" open" if lines <= _OPEN_LINES and not folded else "")
    fact = _fact(summary, body, kind)
    parts = [fill('<b>Allow this?</b> <code style="{style}">{}</code><br>\n', escape(fact), style=WRAPPED)]
    parts.append(_asks_because(reason, risk))
    if claim.strip():
        words = escape(one_line(claim, _LONGEST_CLAIM))
        parts.append(fill('{} <code style="{style}">{}</code><br>\n', escape(_CLAIM), words, style=WRAPPED))
    if note.strip():
        parts.append(fill("Note: {}<br>\n", escape(one_line(note, _LONGEST_NOTE))))
    if not _says_it_all(fact, body):
        head = f"The whole {_KINDS.get(kind, 'call')}, {counted(lines, 'line')}"
        parts.append(fill("<details{opened}><summary>{}</summary>\n{}</details>\n", escape(head), whole, opened=opened))
    return card(join("", parts), label="approval", color=AMBER)


def approval_text(
    summary: str, reason: str, body: str, kind: str, risk: Risk = Risk.LOW, *, claim: str = "", note: str = ""
) -> str:
    """Return the approval request as text for stdin. The prompt adds the possible answers."""
    high = f" ({_HIGH})" if risk is Risk.HIGH else ""
    fact = _fact(summary, body, kind)
    parts = [f"Allow this? {fact}", f"  Reason: {one_line(reason, 400)}{high}"]
    if claim.strip():
        parts.append(f"  {_CLAIM} {one_line(claim, _LONGEST_CLAIM)}")
    if note.strip():
        parts.append(f"  Note: {one_line(note, _LONGEST_NOTE)}")
    if not _says_it_all(fact, body):
        parts.append(indent(diff_text(body) if kind == "diff" else reveal_hidden(body.removesuffix("\n"))))
    return "\n".join(parts)


def _asks_because(reason: str, risk: Risk) -> Html:
    high = fill(" (<b>{}</b>)", escape(_HIGH)) if risk is Risk.HIGH else NOTHING
    return fill("Reason: {}{}<br>\n", inline_code_html(one_line(reason, 400)), high)


def _asks_because_text(reason: str, risk: Risk) -> str:
    return f"Reason: {one_line(reason, 400)}{f' ({_HIGH})' if risk is Risk.HIGH else ''}"


def _whole(body: str, kind: str) -> Html:
    if kind == "diff":
        return render_diff(body)
    return code_html(highlighted(reveal_hidden(body), "python")) if kind == "code" else pre(reveal_hidden(body))


def _fact(summary: str, body: str, kind: str) -> str:
    """Return a command of one line in full; otherwise the summary."""
    line = body.removesuffix("\n")
    return reveal_hidden(line) if kind == "command" and line and "\n" not in line else one_line(summary)


def _says_it_all(fact: str, body: str) -> bool:
    return reveal_hidden(body.removesuffix("\n")) == fact or not body.strip()


QUESTION = "ask_user"


def question_html(text: str, *, own: bool = False) -> Html:
    """Return the static part of a question's card; the widget adds the choices. `own`: kin_nb asks, not the model."""
    shown = fill("<b>{}</b>", escape(text)) if _is_short(text) else pre(reveal_hidden(text))
    return card(shown if own else fill("The agent asks: {}", shown), label="question", color=BLUE)


def question_text(text: str, choices: Sequence[str], *, own: bool = False) -> str:
    """The same for the stdin prompt, the choices numbered from 1."""
    question = [reveal_hidden(text)] if own else ["The agent asks:", indent(reveal_hidden(text))]
    return "\n".join([*question, *map(indent, _numbered(choices))])


def run_question_html(text: str, reason: str, code: Sequence[str]) -> Html:
    """Return the static part of the card that asks whether `code` may run. It shows all of the code, piece by piece."""
    lines = sum(line_count(piece.removesuffix("\n")) for piece in code)
    pieces = [code_html(highlighted(reveal_hidden(piece), "python")) for piece in code]
    headings = [escape(f"Part {number} of {len(code)}:\n") if len(code) > 1 else NOTHING for number in _numbers(code)]
    whole = join("", [part for pair in zip(headings, pieces, strict=True) for part in pair])
    head = escape(f"The whole code, {counted(lines, 'line')}")
    parts = [fill("<b>{}</b><br>\n", escape(reveal_hidden(text))), _asks_because(reason, Risk.HIGH)]
    parts.append(fill("<details open><summary>{}</summary>\n{}</details>\n", head, whole))
    return card(join("", parts), label="question", color=AMBER)


def run_question_text(text: str, reason: str, code: Sequence[str], choices: Sequence[str]) -> str:
    """The same for the stdin prompt, the choices numbered from 1."""
    parts = [reveal_hidden(text), indent(_asks_because_text(reason, Risk.HIGH))]
    for number, piece in zip(_numbers(code), code, strict=True):
        parts += [f"Part {number} of {len(code)}:"] if len(code) > 1 else []
        parts.append(indent(reveal_hidden(piece.removesuffix("\n"))))
    return "\n".join([*parts, *_numbered(choices)])


def render_run_question(text: str, reason: str, code: Sequence[str], choices: Sequence[str]) -> Output:
    """Return the same card without buttons, for viewers without widgets."""
    shown = run_question_text(text, reason, code, choices)
    return Output.of(run_question_html(text, reason, code), shown, kind="notice", level="info")


def _numbers(pieces: Sequence[str]) -> range:
    return range(1, len(pieces) + 1)


def question_block(arguments: Mapping[str, Any], subject: str) -> str | None:
    """Return the question of an ask_user call, unless `subject` has all of it, and its choices, for the card.

    None for arguments that hold no question.
    """
    text, choices = arguments.get("question"), arguments.get("choices", [])
    if not isinstance(text, str) or not isinstance(choices, list):
        return None
    question = [] if text.strip() == subject else [reveal_hidden(text)]
    return "\n".join([*question, *_numbered([choice for choice in choices if isinstance(choice, str)])])


def answer_block(output: str) -> str:
    """Return the user's answer, which may have several lines."""
    return f"Answer:\n{indent(output)}" if "\n" in output else f"Answer: {output}"


def _numbered(choices: Sequence[str]) -> list[str]:
    return [f"{number}) {one_line(choice, 400)}" for number, choice in enumerate(choices, 1)]


def _is_short(text: str) -> bool:
    return one_line(text) == text
