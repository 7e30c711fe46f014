"""A question in the tool call's own output: choices to click, a field for an answer of one's own. It settles into one line."""

from __future__ import annotations

import asyncio
from functools import partial
from html import escape
from typing import Any

from kin_nb.core.questions import Question
from kin_nb.notebook.approval.widget import CardPlace, NoWidgetsError, with_parts
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.tap import Message, TapRun


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


class _QuestionCard:
    """The widgets, and what is said with them. One asyncio loop touches them.

    Without `multiple` each choice is a button that answers; with it, a box to tick before Send. What is in the field goes
    with either, so that nothing that was typed is lost.
    """

    def __init__(self, question: Question, answer: asyncio.Future[str], asker: str | None) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, and only when somebody is asked)

        from kin_nb.render.question import question_html  # noqa: PLC0415  (likewise)
        from kin_nb.render.text import literal  # noqa: PLC0415  (likewise)

        self._answer, self._asker, self._question = answer, asker, question
        layout = widgets.Layout(width="auto")
        self._body = widgets.HTML(question_html(question.text), layout=layout)
        kind = partial(widgets.Checkbox, indent=False) if question.multiple else widgets.Button
        self._choices = {kind(description=literal(choice), layout=layout): choice for choice in question.choices}
        # Sent when the field is left, so a click finds it whole: updates per keystroke wait for each other.
        self._own = widgets.Text(
            placeholder="An answer of your own", continuous_update=False, layout=widgets.Layout(width="100%")
        )
        self._send = widgets.Button(description="Send", layout=layout)
        row = widgets.VBox if question.multiple else partial(widgets.HBox, layout=widgets.Layout(flex_flow="row wrap"))
        self._row = row(list(self._choices))
        self._last = widgets.HBox([self._own, self._send])
        self._root = widgets.VBox([self._body, self._row, self._last], layout=layout)
        shown = [*self._choices, self._row, self._own, self._send, self._last, self._body, self._root]
        self.everything = with_parts(shown)

    def view(self) -> dict[str, Any]:
        model = {"version_major": 2, "version_minor": 0, "model_id": self._root.model_id}
        return {"application/vnd.jupyter.widget-view+json": model}

    def post(self, loop: asyncio.AbstractEventLoop, widget: Any, message: Message) -> None:
        loop.call_soon_threadsafe(self.hear, widget, message)

    def hear(self, widget: Any, message: Message) -> None:
        """What the front end says to `widget` (jupyter.widget protocol, version 2)."""
        if message["msg_type"] == "comm_close":
            if message["header"].get("session") == self._asker and not self._answer.done():
                self._answer.set_exception(NoWidgetsError())
            return
        data = message["content"]["data"]
        match data.get("method"):
            case "update":
                widget.set_state(data["state"])
            case "request_state":
                widget.send_state()
            case "custom" if data["content"].get("event") == "click":
                self._clicked(widget)

    def _clicked(self, widget: Any) -> None:
        """An empty answer is none: Send waits for more."""
        if self._question.multiple:
            chosen = [choice for box, choice in self._choices.items() if box.value]
        else:
            chosen = [self._choices[widget]] if widget in self._choices else []
        answer = "\n".join(filter(None, [*chosen, self._own.value.strip()]))
        if answer and not self._answer.done():
            self._answer.set_result(answer)

    def settle(self, outcome: str) -> None:
        """Close the controls. The one line stays alive: a reloaded page misses the update that replaces this output."""
        from kin_nb.render.text import one_line  # noqa: PLC0415  (loaded by then)

        question = escape(one_line(self._question.text))
        self._body.value = f"<code>{question}</code> <b>{escape(one_line(outcome, 400))}</b>"
        self._root.children = (self._body,)
        kept = with_parts([self._body, self._root])
        for widget in self.everything:
            if widget not in kept:
                widget.close()
