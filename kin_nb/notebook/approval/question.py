"""The agent's questions to the user (core/questions.py): by widget, by `input()`, or refused, as with approvals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kin_nb.core.questions import AskQuestion, Question, no_user
from kin_nb.core.tool_types import ToolError
from kin_nb.notebook.approval.card import FOCUS, Card, NoWidgetsError, html_widget, text, with_parts
from kin_nb.notebook.approval.channel import Channel, channel_without_widgets, first_channel, read_line
from kin_nb.notebook.approval.widget import CardPlace
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.main_thread_loop import SubmitMain
from kin_nb.notebook.tap import TapRun
from kin_nb.render.text import Html, escape_quotes, fill, join, one_line, reveal_hidden


async def ask_question_by_widget(question: Question, *, io: CellOutput, run: TapRun, place: CardPlace) -> str:
    """Show the card, wait for an answer, settle the card. The caller redraws `place` afterwards.

    Raises NoWidgetsError, and must run, as `ask_by_widget` does.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    card = _QuestionCard(question, answer, io.parent.get("header", {}).get("session"))
    try:
        for widget in card.everything:
            run.subscribe(widget.model_id, partial(card.post, loop, widget))
        io.display({**place.fallback, **card.view()}, display_id=place.display_id, update=place.update)
        return await answer
    finally:
        for widget in card.everything:
            run.unsubscribe(widget.model_id)
        card.settle(_outcome(answer))


def _outcome(answer: asyncio.Future[str]) -> str:
    if not answer.done() or answer.cancelled():
        return "Interrupted"
    return "Asked elsewhere" if answer.exception() else f"Answered: {answer.result()}"


class _QuestionCard(Card[str]):
    """The widgets of a question, and its answer.

    Without `multiple` each choice is a button that answers; with it, a box to tick before Send. What is in the field goes
    with either, so that nothing that was typed is lost.
    """

    def __init__(self, question: Question, answer: asyncio.Future[str], asker: str | None) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, and only when a user is asked)

        super().__init__(answer, asker)
        self._question = question
        layout = widgets.Layout(width="auto")
        self.body = html_widget(join("", [FOCUS, text(_html(question))]), layout=layout)
        kind = partial(widgets.Checkbox, indent=False) if question.multiple else widgets.Button
        self._choices = {kind(description=reveal_hidden(choice), layout=layout): choice for choice in question.choices}
        # Sent when the field is left, so a click finds it whole: updates per keystroke wait for each other.
        self._own = widgets.Text(
            placeholder="An answer of your own", continuous_update=False, layout=widgets.Layout(width="100%")
        )
        self._send = widgets.Button(description="Send", layout=widgets.Layout(width="auto", flex="none"))
        row = widgets.VBox if question.multiple else partial(widgets.HBox, layout=widgets.Layout(flex_flow="row wrap"))
        self._row = row(list(self._choices))
        self._last = widgets.HBox([self._own, self._send])
        last = [self._last] if question.own_words or question.multiple else []
        self.root = widgets.VBox([self.body, self._row, *last], layout=layout).add_class("kin-card")
        shown = [*self._choices, self._row, self._own, self._send, self._last, self.body, self.root]
        self.everything = with_parts(shown)

    def clicked(self, widget: Any) -> None:
        """An empty answer is none: Send waits for more."""
        if self._question.multiple:
            chosen = [choice for box, choice in self._choices.items() if box.value]
        else:
            chosen = [self._choices[widget]] if widget in self._choices else []
        answer = "\n".join(filter(None, [*chosen, self._own.value.strip()]))
        if answer:
            self.answered(answer)

    def settle(self, outcome: str) -> None:
        question, answered = one_line(self._question.text), one_line(outcome, 400)
        self.settle_as(fill("<code>{}</code> <b>{}</b>", escape_quotes(question), escape_quotes(answered)))


_TRIES = 3


def choose_question_channel(
    io: CellOutput, *, run: TapRun, submit_main: SubmitMain, place: Callable[[Question], CardPlace]
) -> AskQuestion:
    """Choose as `choose_channel` does, KIN_APPROVAL included. Where approvals are refused, so are questions. One at a time."""
    return _QuestionChannel(io, run, submit_main, place)


class _QuestionChannel:
    def __init__(
        self, io: CellOutput, run: TapRun, submit_main: SubmitMain, place: Callable[[Question], CardPlace]
    ) -> None:
        self._io, self._run, self._submit_main, self._place = io, run, submit_main, place
        self._way = first_channel(io, run)
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, question: Question) -> str:
        async with self._one_at_a_time:
            return await self._ask(question)

    async def _ask(self, question: Question) -> str:
        if self._way is Channel.WIDGET:
            try:
                return await ask_question_by_widget(question, io=self._io, run=self._run, place=self._place(question))
            except NoWidgetsError:
                self._way = channel_without_widgets(self._io)
        if self._way is Channel.STDIN:
            try:
                return await ask_question_by_stdin(question, self._submit_main, self._io.asking)
            except NotImplementedError:  # IPython's StdinNotImplementedError: this client takes no input()
                self._way = Channel.HEADLESS
        return await no_user(question)


async def ask_question_by_stdin(question: Question, submit_main: SubmitMain, asking: Callable[[str], str] = str) -> str:
    """An empty line asks again. End of input and Ctrl-C interrupt the turn.

    Raises ToolError after `_TRIES` empty lines, NotImplementedError where the client takes no input.
    """
    for _ in range(_TRIES):
        answer = read_reply(await submit_main(partial(read_line, asking(prompt_text(question)))), question)
        if answer:
            return answer
    raise ToolError("The user gave no answer. Decide yourself, and say what you assumed.")


def _html(question: Question) -> Html:
    from kin_nb.render.approval import question_html, run_question_html  # noqa: PLC0415  (only when a user is asked)

    if question.code:
        return run_question_html(question.text, question.reason, question.code)
    return question_html(question.text, own=not question.own_words)


def prompt_text(question: Question) -> str:
    from kin_nb.render.approval import question_text, run_question_text  # noqa: PLC0415  (as above)

    how = "answer: "
    if question.choices:
        how = "answer, or numbers with commas: " if question.multiple else "answer or number: "
    if question.code:
        return f"{run_question_text(question.text, question.reason, question.code, question.choices)}\n{how}"
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
