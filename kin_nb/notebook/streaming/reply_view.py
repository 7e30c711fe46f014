"""A reply as it is written, in whichever way this cell's client can show it. One output of the cell in the end.

In widgets, blocks that are complete stay, and only the last one is sent again: as it will look, in fewer bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from kin_nb.core.records import RecordedStep
from kin_nb.notebook.approval.card import Card, html_widget, show_html, with_parts
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import TapRun
from kin_nb.render import Output
from kin_nb.render.markdown import complete_length, split_point
from kin_nb.render.text import WRAPPED, Attribute, Html, clean, escape, fill

_LOOK = Attribute("jp-RenderedHTMLCommon mathjax_ignore kin-live")
"""As JupyterLab and Notebook draw HTML outputs: nothing jumps when the reply settles into one."""
_MORE, _GOES_ON = "kin-more", "kin-on"
"""CSS classes: a piece that follows another; a piece whose last block continues in the next one."""
_REASONING = 300
"""The last characters of the reasoning that are shown until the first text arrives."""
_STYLED = re.compile(r'<(pre|table|th|td)( scope="col")? style="([^"]*)"')
_COLORED = re.compile(r'<span style="([^"]*)">([^<]*)</span>')
_LEFT = "text-align:left"
_NEED_NO_END = re.compile(r"</(?:p|li|th|td|tr|thead|tbody)>\n?")
"""Tags that HTML lets one leave out."""


def live_html(text: str, *, more: bool = False, goes_on: bool = False) -> Html:
    """Return HTML for a piece of a reply in Markdown. One style sheet replaces the styles of its tags."""
    from kin_nb.render.markdown import markdown_html  # noqa: PLC0415  (the renderer is loaded with the first text)

    look = Attribute(" ".join([_LOOK, *[_MORE] * more, *[_GOES_ON] * goes_on]))
    html = Html(_NEED_NO_END.sub("", _COLORED.sub(_colored, _STYLED.sub(_styled, markdown_html(text)))))
    return fill('<div class="{look}"><div>{}</div></div>', html, look=look)


def thinking_html(reasoning: str) -> Html:
    newest = clean(reasoning[-_REASONING:]).strip()
    return fill('<div class="{look}"><small><i>Reasoning:</i> … {}</small></div>', escape(newest), look=_LOOK)


@cache
def style_sheet() -> Html:
    from kin_nb.render.highlight import STYLES, palette  # noqa: PLC0415  (loaded by then)

    live = ".kin-live.kin-live"  # twice: JupyterLab's own rules for tables are as specific
    rules = {
        f".{_MORE}>div>:first-child": "margin-top:0",
        f".{_GOES_ON}>div:last-child,.{_GOES_ON}>div>:last-child": "margin-bottom:0",
        f"{live} table": "margin-left:0",
        f"{live} th,{live} td": _LEFT,
        f"{live} pre": WRAPPED + palette("".join(STYLES.values())),
        f"{live} pre i": "font-style:normal",
        **{f"{live} .{name}": style for style, name in _names().items()},
    }
    return Html(f"<style>{''.join(f'{what}{{{how}}}' for what, how in rules.items())}</style>")


@cache
def _names() -> dict[str, str]:
    from kin_nb.render.highlight import STYLES  # noqa: PLC0415  (loaded by then)

    return {style: kind[:2] for kind, style in STYLES.items()}


def _styled(tag: re.Match[str]) -> str:
    known = tag[1] in {"pre", "table"} or tag[3] == _LEFT
    return f"<{tag[1]}{tag[2] or ''}" if known else tag[0]


def _colored(code: re.Match[str]) -> str:
    name = _names().get(code[1])
    return f"<i class={name}>{code[2]}</i>" if name else code[0]


_INTERVAL = 0.21
_BYTES_PER_SECOND = 10_000
"""What the last block may cost; one that grows long is sent less often."""
_FROZEN = 900
"""Characters that are worth a widget of their own once they stay as they are: it costs about three kilobytes."""


class WidgetReplyView:
    """The widgets of one reply. `show` takes the whole text so far; after `close` only the output of `Display` remains.

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
        """Show the text soon."""
        self._text, self._reasoning = text, reasoning
        if self._timer is None:
            wait = max(_INTERVAL, self._widgets.size / _BYTES_PER_SECOND)
            self._timer = asyncio.get_running_loop().call_later(wait, self._draw)

    def close(self, whole: Output) -> None:
        """Close the widgets. The whole reply stays in them, for a reloaded page, which misses the update of this output."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for widget in self._widgets.everything:
            self._run.unsubscribe(widget.model_id)
        self._widgets.end(whole.html if self._run.reloaded else None)
        if self._refused.done():
            self._refused.exception()  # seen

    def _draw(self) -> None:
        self._timer = None
        if self.refused:
            return
        pending = self._opener + self._text[self._taken :]
        end, opener = split_point(pending, _FROZEN + len(self._opener))
        if end:
            done = live_html(pending[:end], more=self._taken > 0, goes_on=end > complete_length(pending))
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
            self._run.subscribe(widget.model_id, partial(self._widgets.post, loop, widget))


class _Widgets(Card[None]):
    """The comms of a reply. Nothing in them can be clicked."""

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
        """Keep the last piece as `done`, and add a new one after it. Return the comms that were opened.

        A new one above it would move the last one: front ends redraw everything that has moved.
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
        """Do nothing: there is nothing to click."""

    def _piece(self, html: Html) -> Any:
        style = {"style": self._style} if self._style is not None else {}
        return html_widget(html, layout=self._layout, **style)


_SHORT = 300
"""Characters that are drawn again and again as they are: widgets would cost more."""

Draw = Callable[[RecordedStep], Output]


class ReplyView:
    """Show one reply. `run`: the cell's run, if its front end may draw widgets. `draw` creates the card of a (partial) reply."""

    def __init__(self, display: Display, draw: Draw, run: TapRun | None) -> None:
        self._display, self._draw, self._run = display, draw, run
        self._widgets: WidgetReplyView | None = None
        self._newest = RecordedStep()
        self._told = 0
        """Characters already printed, where outputs cannot be redrawn."""

    def show(self, step: RecordedStep) -> None:
        """Show the reply so far: soon, or with its next complete block."""
        before, self._newest = self._newest, step
        if self._display.io.is_watched:
            self._redraw()
        elif (
            not self._display.io.updates_in_place and "\n" in step.content[len(before.content) :]
        ):  # no block ends else
            self._tell(step, self._told + complete_length(step.content[self._told :]))

    def settle(self, step: RecordedStep) -> None:
        """Show the whole reply; in a terminal, print the rest of it."""
        if self._told:
            self._tell(step, len(step.content))
            return
        whole = self._draw(step)
        self._display.draw(whole, settled=True)
        if self._widgets is not None:
            self._widgets.close(whole)

    def _redraw(self) -> None:
        step = self._newest
        grown = len(step.content) + len(step.reasoning) > _SHORT
        if self._run is not None and self._widgets is None and grown:
            self._widgets = WidgetReplyView(self._display, self._run, step, self._draw(step), self._redraw)
        if self._widgets is not None and not self._widgets.refused:
            self._widgets.show(step.content, step.reasoning)
        else:
            self._display.draw_soon(lambda: self._draw(self._newest))

    def _tell(self, step: RecordedStep, end: int) -> None:
        """Print the next piece as an output of its own."""
        if end == self._told:
            return
        piece = step.model_copy(
            update={"content": step.content[self._told : end], "reasoning": "" if self._told else step.reasoning}
        )
        self._told = end
        if piece.content.strip():
            Display(self._display.io).draw(self._draw(piece), settled=True)
