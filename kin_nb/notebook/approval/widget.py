"""Asking with buttons in the tool call's own output. The card is a control, not a record: it settles into one line."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.approval.card import Card, with_parts
from kin_nb.notebook.approval.choices import choices, covered
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.tap import TapRun

_HOLDS = {"session": "for this session", "always": "always"}
_BUTTONS = {"session": "Approve for this session", "always": "Always"}


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


class _Card(Card[ApprovalDecision]):
    """The widgets, and what a click on each means."""

    def __init__(self, request: ApprovalRequest, answer: asyncio.Future[ApprovalDecision], asker: str | None) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, and only when somebody is asked)

        from kin_nb.render.approval import approval_html  # noqa: PLC0415  (likewise)

        super().__init__(answer, asker)
        self._summary = request.preview.summary
        layout = widgets.Layout(width="auto")
        preview = request.preview
        html = approval_html(preview.summary, request.reason, preview.body, preview.kind, request.risk)
        self.body = widgets.HTML(html, layout=layout)
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
        self.root = widgets.VBox([self.body, self._note, self._row], layout=layout)
        self.everything = with_parts([*self._decisions, self._row, self._note, self.body, self.root])

    def _add_button(self, label: str, decision: ApprovalDecision, layout: Any, **look: Any) -> None:
        from ipywidgets import Button  # noqa: PLC0415  (loaded by then)

        self._decisions[Button(description=label, layout=layout, **look)] = decision

    def clicked(self, widget: Any) -> None:
        decision = self._decisions.get(widget)
        if decision is not None:
            self.answered(replace(decision, message=self._note.value.strip() or None))

    def settle(self, outcome: str) -> None:
        self.settle_as(f"<b>{escape(outcome)}</b> <code>{escape(self._summary)}</code>")
