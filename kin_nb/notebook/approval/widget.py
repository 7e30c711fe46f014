"""Asking with buttons in the tool call's own output. The card is a control, not a record: it settles into one line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.approval.choices import choices, covered
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.tap import Message, TapRun

_HOLDS = {"session": "for this session", "always": "always"}
_BUTTONS = {"session": "Approve for this session", "always": "Always"}


class NoWidgetsError(Exception):
    """The cell's client closed our comm: it cannot draw widgets."""


@dataclass(frozen=True)
class CardPlace:
    """Where a request's card goes: the tool call's display, and its static bundle for viewers that draw no widget.

    `update` is False when nothing has been displayed under `display_id` yet.
    """

    display_id: str
    fallback: Mapping[str, Any]
    update: bool = True


async def ask_by_widget(request: ApprovalRequest, *, io: CellOutput, run: TapRun, place: CardPlace) -> ApprovalDecision:
    """Show the card, wait for a click, settle the card. The caller redraws `place` afterwards.

    Raises NoWidgetsError when the client that runs the cell closes a comm of the card; another client's close does not
    count, it may be a viewer. Must run on an asyncio loop; the widgets are touched on that loop only.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[ApprovalDecision] = loop.create_future()
    card = _Card(request, answer, io.parent.get("header", {}).get("session"))
    try:
        for widget in card.everything:
            run.watch(widget.model_id, partial(card.post, loop, widget))
        io.display({**place.fallback, **card.view()}, display_id=place.display_id, update=place.update)
        return await answer
    finally:
        for widget in card.everything:
            run.unwatch(widget.model_id)
        card.settle(_outcome(request, answer))


def _outcome(request: ApprovalRequest, answer: asyncio.Future[ApprovalDecision]) -> str:
    if not answer.done() or answer.cancelled():
        return "Interrupted"
    if answer.exception():
        return "Asked elsewhere"
    decision = answer.result()
    if decision.scope == "once":
        return "Approved" if decision.approved else "Rejected"
    return f"Approved {_HOLDS[decision.scope]}: {covered(request, decision)}"


class _Card:
    """The widgets, and what a click on each means. One asyncio loop touches them."""

    def __init__(self, request: ApprovalRequest, answer: asyncio.Future[ApprovalDecision], asker: str | None) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, and only when somebody is asked)

        from kin_nb.render.approval import approval_html  # noqa: PLC0415  (likewise)

        self._answer, self._asker, self._summary = answer, asker, request.preview.summary
        layout = widgets.Layout(width="auto")
        preview = request.preview
        html = approval_html(preview.summary, request.reason, preview.body, preview.kind, request.risk)
        self._body = widgets.HTML(html, layout=layout)
        # Sent when the field is left, so a click finds it whole: updates per keystroke wait for each other.
        self._note = widgets.Text(
            description="Note to the agent",
            placeholder="optional",
            continuous_update=False,
            layout=widgets.Layout(width="100%"),
            style={"description_width": "initial"},
        )
        self._decisions: dict[Any, ApprovalDecision] = {}
        self._add_button("Approve", ApprovalDecision(approved=True), layout, button_style="success")
        for choice in choices(request):
            label = f"{_BUTTONS[choice.decision.scope]}: {choice.covers}"
            style = {"button_color": "transparent"} if choice.decision.scope == "always" else {}
            self._add_button(label, choice.decision, layout, style=style)
        self._add_button("Reject", ApprovalDecision(approved=False), layout, button_style="danger")
        self._row = widgets.HBox(list(self._decisions), layout=widgets.Layout(flex_flow="row wrap"))
        self._root = widgets.VBox([self._body, self._note, self._row], layout=layout)
        self.everything = with_parts([*self._decisions, self._row, self._note, self._body, self._root])

    def _add_button(self, label: str, decision: ApprovalDecision, layout: Any, **look: Any) -> None:
        from ipywidgets import Button  # noqa: PLC0415  (loaded by then)

        self._decisions[Button(description=label, layout=layout, **look)] = decision

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
            case "custom" if widget in self._decisions and data["content"].get("event") == "click":
                self._decide(self._decisions[widget])

    def _decide(self, decision: ApprovalDecision) -> None:
        if not self._answer.done():
            self._answer.set_result(replace(decision, message=self._note.value.strip() or None))

    def settle(self, outcome: str) -> None:
        """Close the controls. The one line stays alive: a reloaded page misses the update that replaces this output."""
        self._body.value = f"<b>{escape(outcome)}</b> <code>{escape(self._summary)}</code>"
        self._root.children = (self._body,)
        kept = with_parts([self._body, self._root])
        for widget in self.everything:
            if widget not in kept:
                widget.close()


def with_parts(widgets: Iterable[Any]) -> list[Any]:
    """The widgets with their layouts and styles, each once: they are comms of their own."""
    parts = [part for w in widgets for part in (w, w.layout, getattr(w, "style", None)) if part is not None]
    return list(dict.fromkeys(parts))
