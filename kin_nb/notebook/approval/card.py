"""The base of cards that ask the user: their widgets, the pending answer, the one line that stays; and collapsible areas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from kin_nb.notebook.tap import Message
from kin_nb.render.text import Html, fill, join

Answer = TypeVar("Answer")


class NoWidgetsError(Exception):
    """The front end closed the card's comm: it cannot draw widgets."""


class Card(Generic[Answer]):
    """One asyncio loop touches it. Subclasses make `body`, `root` and `everything`, and answer in `clicked`.

    `asker`: the client session that ran the cell. No other client can answer or change what is in the fields, and only
    this one's closing a comm means that it draws no widgets. Clients name themselves in each message, and a page that is
    reloaded is another client.
    """

    body: Any
    root: Any
    everything: list[Any]

    def __init__(self, answer: asyncio.Future[Answer], asker: str | None) -> None:
        self._answer, self._asker = answer, asker
        self._tells_where = False

    def view(self) -> dict[str, Any]:
        model = {"version_major": 2, "version_minor": 0, "model_id": self.root.model_id}
        return {"application/vnd.jupyter.widget-view+json": model}

    def post(self, loop: asyncio.AbstractEventLoop, widget: Any, message: Message) -> None:
        loop.call_soon_threadsafe(self.hear, widget, message)

    def hear(self, widget: Any, message: Message) -> None:
        """Handle a message for `widget` (jupyter.widget protocol, version 2)."""
        is_asker = self._asker is not None and message["header"].get("session") == self._asker
        if message["msg_type"] == "comm_close":
            if is_asker and not self._answer.done():
                self._answer.set_exception(NoWidgetsError())
            return
        data = message["content"]["data"]
        match data.get("method"):
            case "request_state":
                widget.send_state()
            case "update" if is_asker:
                widget.set_state(data["state"])
            case "custom" if data["content"].get("event") == "click":
                if is_asker:
                    self.clicked(widget)
                else:
                    self._tell_where()

    def clicked(self, widget: Any) -> None:
        raise NotImplementedError

    def _tell_where(self) -> None:
        """Show, on every page, that a click of another client was ignored."""
        if not self._tells_where and not self._answer.done():
            self._tells_where = True
            show_html(self.body, join("", [Html(self.body.value), ANOTHER_CLIENT]))

    def answered(self, answer: Answer) -> None:
        """The first answer counts."""
        if not self._answer.done():
            self._answer.set_result(answer)

    def settle_as(self, html: Html) -> None:
        """Close the controls. The one line stays alive: a reloaded page misses the update that replaces this output."""
        show_html(self.body, html)
        self.root.children = (self.body,)
        kept = with_parts([self.body, self.root])
        for widget in self.everything:
            if widget not in kept:
                widget.close()


ANOTHER_CLIENT = Html(
    "<div><b>Your click was ignored: this page did not run the cell.</b><br>\n"
    "Answer on the page that ran it. If that page was closed or reloaded, interrupt the kernel and run the cell again.</div>"
)

FOCUS = Html("<style>.kin-card :focus-visible{outline:2px solid currentColor!important;outline-offset:1px}</style>")
"""For the body of a card whose root has the class kin-card: JupyterLab's own line is one pale pixel."""


def text(html: Html) -> Html:
    """For a widget of HTML: ipywidgets gives each of its lines the height of a button."""
    return fill('<div style="line-height:1.45">{}</div>', html)


def html_widget(html: Html, **traits: Any) -> Any:
    """The only way to one: ipywidgets would take any text."""
    import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

    return widgets.HTML(html, **traits)


def show_html(widget: Any, html: Html) -> None:
    """In place of what `widget`, which is of HTML, shows."""
    widget.value = html


def with_parts(widgets: Iterable[Any]) -> list[Any]:
    """The widgets with their layouts and styles, each once: they are comms of their own."""
    parts = [part for w in widgets for part in (w, w.layout, getattr(w, "style", None)) if part is not None]
    return list(dict.fromkeys(parts))


class Collapsible:
    """`label`, `undo`: what the button says while the area is out of sight, and while it is shown."""

    def __init__(self, label: str, undo: str, tooltip: str, content: list[Any]) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

        self._labels = (label, undo)
        self.button = widgets.Button(description=label, tooltip=tooltip, layout=widgets.Layout(width="auto"))
        # Hidden, not taken out of its parent: that would redraw what follows, and take the focus from the button.
        self.area = widgets.VBox(content, layout=widgets.Layout(display="none"))
        self.widgets = [self.button, *content, self.area]

    @property
    def is_shown(self) -> bool:
        return bool(self.area.layout.display != "none")

    def toggle(self) -> None:
        shown = not self.is_shown
        show(self.area, shown=shown)
        self.button.description = self._labels[shown]


def show(area: Any, *, shown: bool) -> None:
    area.layout.display = None if shown else "none"
