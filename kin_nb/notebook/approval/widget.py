"""Asking with buttons in the tool call's own output. The card is a control, not a record: it settles into one line.

It offers yes, no, and: scopes, the call to edit, the parts of an edit, an edit in two columns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.tool_types import Preview
from kin_nb.core.tools.edited import split_patch
from kin_nb.notebook.approval.card import FOCUS, Card, Collapsible, html_widget, show, show_html, text, with_parts
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.tap import TapRun
from kin_nb.render.text import NOTHING, Html, escape_quotes, fill, join, line_count, reveal_hidden

_MOST_SCOPES = 2


class Choice(NamedTuple):
    """`key` is what is typed for it, `covers` the scope in words, safe to show."""

    key: str
    covers: str
    decision: ApprovalDecision


def choices(request: ApprovalRequest) -> list[Choice]:
    """For this session, then always: each of the first two scopes, and "always" for those that a rule can say."""
    offered = list(enumerate(request.scopes[:_MOST_SCOPES]))
    session = [ApprovalDecision(True, scope="session", grant=index) for index, _ in offered]
    always = [ApprovalDecision(True, scope="always", grant=index) for index, grant in offered if grant.may_last]
    return [_choice(request, decision) for decision in (*session, *always)]


def scope_label(request: ApprovalRequest, decision: ApprovalDecision) -> str:
    """The scope of a decision in words: "" for one that is about this call only."""
    from kin_nb.render.text import one_line  # noqa: PLC0415  (drawing is only needed when a user is asked)

    if decision.scope == "once":
        return ""
    grant = request.scopes[decision.grant]
    return one_line((grant.label_always if decision.scope == "always" else "") or grant.label)


def _choice(request: ApprovalRequest, decision: ApprovalDecision) -> Choice:
    number = str(decision.grant + 1) if decision.grant else ""
    return Choice(decision.scope[0] + number, scope_label(request, decision), decision)


_FEWEST_ROWS, _MOST_ROWS = 3, 20
_STYLE = Html("<style>.kin-edit textarea{font-family:var(--jp-code-font-family,monospace)}</style>")
_HIDDEN = Html(
    "Some of its characters cannot be seen, or change the order of others. Here they are as they are; above, each is "
    "written like ⟨U+202E⟩.<br>\n"
)


def edited_args(request: ApprovalRequest, text: str) -> dict[str, Any] | None:
    """The request's arguments with `text` in place of what may be edited; None when it is the same.

    Fields know one line ending: text that had CRLF throughout has it again.
    """
    original = original_text(request)
    if _lf(text) == _lf(original):
        return None
    if original.count("\r\n") == original.count("\n") > 0:
        text = _lf(text).replace("\n", "\r\n")
    return {**request.args.model_dump(mode="json", exclude_none=True), request.editable: text}


def original_text(request: ApprovalRequest) -> str:
    return str(getattr(request.args, request.editable))


class Editor(Collapsible):
    """A text area with the argument that may be edited, all of it and raw. It counts while it is shown."""

    def __init__(self, request: ApprovalRequest) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

        self._request = request
        text, name = _lf(original_text(request)), request.editable.replace("_", " ")
        hidden = _HIDDEN if reveal_hidden(text) != text else NOTHING
        about = html_widget(fill("{}{}What you edit is approved as a whole, for this call only.", _STYLE, hidden))
        # Sent when the field is left, as the note is.
        self._text = widgets.Textarea(
            value=text,
            description=name.capitalize(),  # its label, for who cannot see it too
            rows=min(max(line_count(text), _FEWEST_ROWS), _MOST_ROWS),
            continuous_update=False,
            layout=widgets.Layout(width="auto"),
            style={"description_width": "initial"},
        ).add_class("kin-edit")
        super().__init__("Edit", "Cancel edit", f"Change the {name} before it runs", [about, self._text])

    @property
    def args(self) -> dict[str, Any] | None:
        return edited_args(self._request, self._text.value) if self.is_shown else None

    def toggle(self) -> None:
        super().toggle()
        if self.is_shown:
            self._text.focus()


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


_MOST = 50
"""Parts of an edit that can be chosen from: each is widgets on the wire. Of more, all or nothing."""


def hunk_selection(request: ApprovalRequest) -> HunkSelection | None:
    """None unless it is an edit of one file in several places."""
    preview = request.preview
    if preview.kind != "diff" or preview.texts is None:
        return None
    header, hunks = split_patch(preview.body)
    return HunkSelection(hunks, header.rstrip().rpartition("/")[2]) if 1 < len(hunks) <= _MOST else None


class HunkSelection:
    """A box to tick for each hunk, above its lines. `name`: the file's, by which they are highlighted."""

    def __init__(self, hunks: list[str], name: str) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

        from kin_nb.render.diff import render_diff  # noqa: PLC0415  (as above)

        layout = widgets.Layout(width="auto")
        labels = [f"Part {number} of {len(hunks)}" for number in range(1, len(hunks) + 1)]
        self._boxes = [widgets.Checkbox(value=True, description=label, indent=False, layout=layout) for label in labels]
        lines = [html_widget(text(render_diff(hunk, path=name)), layout=layout) for hunk in hunks]
        shown = [widget for pair in zip(self._boxes, lines, strict=True) for widget in pair]
        self.area = widgets.VBox(shown, layout=widgets.Layout())
        self.widgets = [*shown, self.area]

    @property
    def chosen(self) -> tuple[int, ...] | None:
        """None for all."""
        ticked = tuple(number for number, box in enumerate(self._boxes) if box.value)
        return None if len(ticked) == len(self._boxes) else ticked

    def show(self, *, shown: bool) -> None:
        show(self.area, shown=shown)


class SideBySide(Collapsible):
    def __init__(self, preview: Preview) -> None:
        self._patch, self._html = preview.body, html_widget(NOTHING)
        super().__init__(
            "Side by side", "Hide side by side", "Show the text before and after in two columns", [self._html]
        )

    def toggle(self) -> None:
        """Draw it on first use: it is large."""
        from kin_nb.render.diff import side_by_side  # noqa: PLC0415  (as above)

        if not self._html.value:
            show_html(self._html, text(side_by_side(self._patch)))
        super().toggle()


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
            run.subscribe(widget.model_id, partial(card.post, loop, widget))
        io.display({**place.fallback, **card.view()}, display_id=place.display_id, update=place.update)
        return await answer
    finally:
        for widget in card.everything:
            run.unsubscribe(widget.model_id)
        card.settle(_outcome(request, answer))


def _outcome(request: ApprovalRequest, answer: asyncio.Future[ApprovalDecision]) -> str:
    if not answer.done() or answer.cancelled():
        return "Interrupted"
    if answer.exception():
        return "Asked elsewhere"
    decision = answer.result()
    if decision.approved and decision.edited_args is not None:
        return "Approved as you edited it"
    if decision.approved and decision.hunks is not None:
        return "Approved in part" if decision.hunks else "Rejected"
    if decision.scope == "once":
        return "Approved" if decision.approved else "Rejected"
    return f"Approved {_HOLDS[decision.scope]}: {scope_label(request, decision)}"


class _Card(Card[ApprovalDecision]):
    """The widgets, and what a click on each means.

    In the order in which Tab goes through them: the call, the note, what shows more, what it shows, the decisions.
    """

    def __init__(self, request: ApprovalRequest, answer: asyncio.Future[ApprovalDecision], asker: str | None) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, and only when a user is asked)

        from kin_nb.render.approval import approval_html  # noqa: PLC0415  (as above)

        super().__init__(answer, asker)
        self._summary = request.preview.summary
        layout = widgets.Layout(width="auto")
        preview = request.preview
        self._parts = hunk_selection(request)
        folded = self._parts is not None
        asked = (preview.summary, request.reason, preview.body, preview.kind, request.risk)
        html = approval_html(*asked, claim=preview.claim, note=preview.note, folded=folded)
        self.body = html_widget(join("", [FOCUS, text(html)]), layout=layout)
        # Sent when the field is left, so a click finds it whole: updates per keystroke wait for each other.
        self._note = widgets.Text(
            description="Note to the agent",
            placeholder="optional",
            continuous_update=False,
            layout=widgets.Layout(width="auto"),  # 100% and its margins would be too wide
            style={"description_width": "initial"},
        )
        self._editor = Editor(request) if request.editable else None
        compare = SideBySide(preview) if preview.kind == "diff" and preview.body else None
        self._folds: list[Collapsible] = [fold for fold in (self._editor, compare) if fold is not None]
        tools = [widgets.HBox([fold.button for fold in self._folds])] if self._folds else []
        self._decisions: dict[Any, ApprovalDecision] = {}
        self._add_decisions(request, layout)
        self._row = widgets.HBox(list(self._decisions), layout=widgets.Layout(flex_flow="row wrap"))
        foldable: list[Collapsible | HunkSelection] = [*self._folds, *([self._parts] if self._parts else [])]
        areas = [part.area for part in foldable]
        self.root = widgets.VBox([self.body, self._note, *tools, *areas, self._row], layout=layout).add_class(
            "kin-card"
        )
        inside = [widget for part in foldable for widget in part.widgets]
        own = [self._row, self._note, self.body, self.root]
        self.everything = with_parts([*self._decisions, *inside, *tools, *own])

    def _add_decisions(self, request: ApprovalRequest, layout: Any) -> None:
        dark = {"text_color": "#000"}  # JupyterLab's white on this green is too faint to read (4.1)
        self._add_button("Approve", ApprovalDecision(approved=True), layout, button_style="success", style=dark)
        for choice in choices(request):
            label = f"{_BUTTONS[choice.decision.scope]}: {choice.covers}"
            style = {"button_color": "transparent"} if choice.decision.scope == "always" else {}
            self._add_button(label, choice.decision, layout, style=style)
        self._add_button("Reject", ApprovalDecision(approved=False), layout, button_style="danger")

    def _add_button(self, label: str, decision: ApprovalDecision, layout: Any, **look: Any) -> None:
        from ipywidgets import Button  # noqa: PLC0415  (loaded by then)

        self._decisions[Button(description=label, layout=layout, **look)] = decision

    def clicked(self, widget: Any) -> None:
        for fold in self._folds:
            if widget is fold.button:
                fold.toggle()
        if self._editor and self._parts:  # parts cannot be chosen while the text is edited
            self._parts.show(shown=not self._editor.is_shown)
        decision = self._decisions.get(widget)
        if decision is not None:
            self.answered(replace(self._changed(decision), message=self._note.value.strip() or None))

    def _changed(self, decision: ApprovalDecision) -> ApprovalDecision:
        """With what was edited or left out: then it is for this call only."""
        if not decision.approved:
            return decision
        args = self._editor.args if self._editor else None
        hunks = self._parts.chosen if self._parts and args is None else None
        if args is None and hunks is None:
            return decision
        return replace(decision, edited_args=args, hunks=hunks, scope="once", grant=0)

    def settle(self, outcome: str) -> None:
        self.settle_as(fill("<b>{}</b> <code>{}</code>", escape_quotes(outcome), escape_quotes(self._summary)))
