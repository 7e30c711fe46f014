"""A question in the tool call's own output: choices to click, a field for an answer of one's own. It settles into one line."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from kin_nb.core.questions import Question
from kin_nb.notebook.approval.card import FOCUS, Card, html_widget, text, with_parts
from kin_nb.notebook.approval.widget import CardPlace
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.tap import TapRun
from kin_nb.render.text import escape_quotes, fill, join, literal, one_line


async def ask_question_by_widget(question: Question, *, io: CellOutput, run: TapRun, place: CardPlace) -> str:
    """Show the card, wait for an answer, settle the card. The caller redraws `place` afterwards.

    Raises NoWidgetsError, and must run, as `ask_by_widget` does.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    card = _QuestionCard(question, answer, io.parent.get("header", {}).get("session"))
    try:
        for widget in card.everything:
            run.watch(widget.model_id, partial(card.post, loop, widget))
        io.display({**place.fallback, **card.view()}, display_id=place.display_id, update=place.update)
        return await answer
    finally:
        for widget in card.everything:
            run.unwatch(widget.model_id)
        card.settle(_outcome(answer))


def _outcome(answer: asyncio.Future[str]) -> str:
    if not answer.done() or answer.cancelled():
        return "Interrupted"
    return "Asked elsewhere" if answer.exception() else f"Answered: {answer.result()}"


class _QuestionCard(Card[str]):
    """The widgets, and what is said with them.

    Without `multiple` each choice is a button that answers; with it, a box to tick before Send. What is in the field goes
    with either, so that nothing that was typed is lost.
    """

    def __init__(self, question: Question, answer: asyncio.Future[str], asker: str | None) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, and only when somebody is asked)

        from kin_nb.render.approval import question_html  # noqa: PLC0415  (likewise)

        super().__init__(answer, asker)
        self._question = question
        layout = widgets.Layout(width="auto")
        asked = text(question_html(question.text, own=not question.own_words))
        self.body = html_widget(join("", [FOCUS, asked]), layout=layout)
        kind = partial(widgets.Checkbox, indent=False) if question.multiple else widgets.Button
        self._choices = {kind(description=literal(choice), layout=layout): choice for choice in question.choices}
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
