"""A question of the agent's to the person: while it waits, and as it stays. Its words are the model's: shown literally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kin_nb.render.output import BLUE, frame
from kin_nb.render.text import escape, indent, literal, one_line, pre

TOOL = "ask_user"


def question_html(text: str, *, own: bool = False) -> str:
    """The static part of the question's card; the choices are the widget's. `own`: it is kin_nb that asks."""
    shown = f"<b>{escape(text)}</b>" if _is_short(text) else pre(literal(text))
    return frame(shown if own else f"The agent asks: {shown}", label="question", color=BLUE)


def question_text(text: str, choices: Sequence[str], *, own: bool = False) -> str:
    """The same for the stdin prompt, the choices numbered from 1."""
    question = [literal(text)] if own else ["The agent asks:", indent(literal(text))]
    return "\n".join([*question, *map(indent, _numbered(choices))])


def asked(arguments: Mapping[str, Any], subject: str) -> str | None:
    """What a call of ask_user asked, for its card: the question, unless `subject` is all of it, and the choices.

    None for arguments that hold no question.
    """
    text, choices = arguments.get("question"), arguments.get("choices", [])
    if not isinstance(text, str) or not isinstance(choices, list):
        return None
    question = [] if text.strip() == subject else [literal(text)]
    return "\n".join([*question, *_numbered([choice for choice in choices if isinstance(choice, str)])])


def answer(output: str) -> str:
    """The person's words, which may be several lines."""
    return f"Answer:\n{indent(output)}" if "\n" in output else f"Answer: {output}"


def _numbered(choices: Sequence[str]) -> list[str]:
    return [f"{number}) {one_line(choice, 400)}" for number, choice in enumerate(choices, 1)]


def _is_short(text: str) -> bool:
    return one_line(text) == text
