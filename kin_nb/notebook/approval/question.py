"""The agent's questions to the person (core/questions.py): by widget, by `input()`, or not at all, as approvals are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kin_nb.core.questions import AskQuestion, Question, nobody
from kin_nb.core.tools.base import ToolError
from kin_nb.notebook.approval.card import NoWidgetsError
from kin_nb.notebook.approval.channel import Way, first_way, way_without_widgets
from kin_nb.notebook.approval.question_widget import ask_question_by_widget
from kin_nb.notebook.approval.stdin import read_line
from kin_nb.notebook.approval.widget import CardPlace
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.pump import SubmitMain
from kin_nb.notebook.tap import TapRun

_TRIES = 3


def choose_question_channel(
    io: CellOutput, *, run: TapRun, submit_main: SubmitMain, place: Callable[[Question], CardPlace]
) -> AskQuestion:
    """As `choose_channel`, KIN_APPROVAL included; where approvals are refused, `nobody` answers. One question at a time."""
    return _QuestionChannel(io, run, submit_main, place)


class _QuestionChannel:
    def __init__(
        self, io: CellOutput, run: TapRun, submit_main: SubmitMain, place: Callable[[Question], CardPlace]
    ) -> None:
        self._io, self._run, self._submit_main, self._place = io, run, submit_main, place
        self._way = first_way(io, run)
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, question: Question) -> str:
        async with self._one_at_a_time:
            return await self._ask(question)

    async def _ask(self, question: Question) -> str:
        if self._way is Way.WIDGET:
            try:
                return await ask_question_by_widget(question, io=self._io, run=self._run, place=self._place(question))
            except NoWidgetsError:
                self._way = way_without_widgets(self._io)
        if self._way is Way.STDIN:
            try:
                return await ask_question_by_stdin(question, self._submit_main, self._io.asking)
            except NotImplementedError:  # IPython's StdinNotImplementedError: this client takes no input()
                self._way = Way.HEADLESS
        return await nobody(question)


async def ask_question_by_stdin(question: Question, submit_main: SubmitMain, asking: Callable[[str], str] = str) -> str:
    """An empty line asks again. End of input and Ctrl-C interrupt the turn.

    Raises ToolError after `_TRIES` empty lines, NotImplementedError where the client takes no input.
    """
    for _ in range(_TRIES):
        answer = read_reply(await submit_main(partial(read_line, asking(prompt_text(question)))), question)
        if answer:
            return answer
    raise ToolError("The person gave no answer. Decide yourself, and say what you assumed.")


def prompt_text(question: Question) -> str:
    from kin_nb.render.approval import question_text  # noqa: PLC0415  (drawing is only needed when somebody is asked)

    how = "answer: "
    if question.choices:
        how = "answer, or numbers with commas: " if question.multiple else "answer or number: "
    return f"{question_text(question.text, question.choices, own=not question.own_words)}\n{how}"


def read_reply(line: str, question: Question) -> str:
    """A number, or a choice as it is written, is that choice; with `multiple`, so are several with commas between them.

    Anything else is an answer of the person's own.
    """
    text = line.strip()
    if chosen := _choice(text, question.choices):
        return chosen
    if question.multiple:
        several = [_choice(part.strip(), question.choices) for part in text.split(",") if part.strip()]
        if all(several):
            return "\n".join(dict.fromkeys(several))
    return text if question.own_words else ""


def _choice(text: str, choices: tuple[str, ...]) -> str:
    """ "" for what is none of them."""
    if text in choices:
        return text
    number = text.removesuffix(")").removesuffix(".")
    if number.isascii() and number.isdecimal() and len(number) == 1 and 1 <= int(number) <= len(choices):
        return choices[int(number) - 1]
    return next((choice for choice in choices if choice.casefold() == text.casefold()), "")
