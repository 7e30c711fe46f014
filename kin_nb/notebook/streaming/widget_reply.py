"""A reply as it is written, in widgets: blocks that are complete stay, only the last one is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kin_nb.core.session.records import RecordedStep
from kin_nb.notebook.approval.card import Card, html_widget, show_html, with_parts
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.streaming.live_html import live_html, style_sheet, thinking_html
from kin_nb.notebook.tap import TapRun
from kin_nb.render import Output
from kin_nb.render.markdown import complete, cut
from kin_nb.render.text import Html

_INTERVAL = 0.21
_BYTES_PER_SECOND = 10_000
"""What the last block may cost; one that grows long is sent less often."""
_FROZEN = 900
"""Characters that are worth a widget of their own once they stay as they are: it costs about three kilobytes."""


class WidgetReply:
    """One reply. `show` takes the whole text so far; `close` leaves nothing behind but what `Display` shows then.

    `first` is the reply so far, `card` what a client without widgets is shown of it.
    `refused`: the front end has said that it draws no widgets.
    """

    def __init__(
        self, display: Display, run: TapRun, first: RecordedStep, card: Output, on_refused: Callable[[], None]
    ) -> None:
        self._display, self._run = display, run
        loop = asyncio.get_running_loop()
        self._refused: asyncio.Future[None] = loop.create_future()
        self._refused.add_done_callback(lambda _: None if self._closed else on_refused())
        self._closed = False
        self._taken, self._opener = 0, ""
        self._text, self._reasoning = first.content, first.reasoning
        asker = display.io.parent.get("header", {}).get("session")
        self._widgets = _Widgets(self._refused, asker, self._newest(self._text))
        self._timer: asyncio.TimerHandle | None = None
        self._watch(self._widgets.everything)
        display.put({**card.data, **self._widgets.view()}, card.metadata)

    @property
    def refused(self) -> bool:
        return self._refused.done()

    def show(self, text: str, reasoning: str) -> None:
        """Soon."""
        self._text, self._reasoning = text, reasoning
        if self._timer is None:
            wait = max(_INTERVAL, self._widgets.size / _BYTES_PER_SECOND)
            self._timer = asyncio.get_running_loop().call_later(wait, self._draw)

    def close(self, whole: Output) -> None:
        """A page that was reloaded meanwhile misses the update that replaces this output: for it the whole stays here."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for widget in self._widgets.everything:
            self._run.unwatch(widget.model_id)
        self._widgets.end(whole.html if self._run.reloaded else None)
        if self._refused.done():
            self._refused.exception()  # seen

    def _draw(self) -> None:
        self._timer = None
        if self.refused:
            return
        pending = self._opener + self._text[self._taken :]
        end, opener = cut(pending, _FROZEN + len(self._opener))
        if end:
            done = live_html(pending[:end], more=self._taken > 0, goes_on=end > complete(pending))
            self._taken += end - len(self._opener)
            self._opener = opener
            self._watch(self._widgets.freeze(done, self._newest(opener + pending[end:])))
        else:
            self._widgets.write(self._newest(pending))

    def _newest(self, pending: str) -> Html:
        return live_html(pending, more=self._taken > 0) if self._text.strip() else thinking_html(self._reasoning)

    def _watch(self, widgets: list[Any]) -> None:
        loop = asyncio.get_running_loop()
        for widget in widgets:
            self._run.watch(widget.model_id, partial(self._widgets.post, loop, widget))


class _Widgets(Card[None]):
    """The comms. Nothing in them can be clicked."""

    def __init__(self, refused: asyncio.Future[None], asker: str | None, html: Html) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (0.1 s, with the first reply)

        super().__init__(refused, asker)
        self._layout = widgets.Layout(width="auto", margin="0")
        self._style: Any = None
        self.body = self._piece(html)
        self._style = self.body.style
        sheet = self._piece(style_sheet())
        self.root = widgets.VBox([sheet, self.body], layout=self._layout)
        self.everything = with_parts([sheet, self.body, self.root])

    @property
    def size(self) -> int:
        return len(self.body.value)

    def write(self, html: Html) -> None:
        show_html(self.body, html)

    def freeze(self, done: Html, rest: Html) -> list[Any]:
        """What was the last piece stays as `done`, a new one comes after it. The comms that it opened.

        A new one above it would move the last one: front ends draw anew all that has moved.
        """
        show_html(self.body, done)
        self.body = self._piece(rest)
        self.root.children = (*self.root.children, self.body)
        new = [part for part in with_parts([self.body]) if part not in self.everything]
        self.everything += new
        return new

    def end(self, html: Html | None) -> None:
        if html is None:
            for widget in self.everything:
                widget.close()
        else:
            self.settle_as(html)

    def clicked(self, widget: Any) -> None:
        """There is nothing to click."""

    def _piece(self, html: Html) -> Any:
        style = {"style": self._style} if self._style is not None else {}
        return html_widget(html, layout=self._layout, **style)
