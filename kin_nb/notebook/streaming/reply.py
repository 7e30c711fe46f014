"""A reply as it is written, in whichever way this cell's client can show it. One output of the cell in the end."""

from __future__ import annotations

from collections.abc import Callable

from kin_nb.core.session.records import RecordedStep
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.streaming.widget_reply import WidgetReply
from kin_nb.notebook.tap import TapRun
from kin_nb.render import Output
from kin_nb.render.markdown import complete

_SHORT = 300
"""Characters that are drawn again and again as they are: widgets would cost more."""

Draw = Callable[[RecordedStep], Output]


class Reply:
    """`run`: the cell's, when its front end may draw widgets. `draw` makes the card of a reply, or of a part of one."""

    def __init__(self, display: Display, draw: Draw, run: TapRun | None) -> None:
        self._display, self._draw, self._run = display, draw, run
        self._widgets: WidgetReply | None = None
        self._newest = RecordedStep()
        self._told = 0
        """Characters that a person has read who reads along where nothing can be redrawn."""

    def show(self, step: RecordedStep) -> None:
        """The reply so far: soon, or with its next complete block."""
        before, self._newest = self._newest, step
        if self._display.io.is_watched:
            self._redraw()
        elif (
            not self._display.io.updates_in_place and "\n" in step.content[len(before.content) :]
        ):  # no block ends else
            self._tell(step, self._told + complete(step.content[self._told :]))

    def settle(self, step: RecordedStep) -> None:
        """The whole reply; in a terminal, what is still missing of it."""
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
            self._widgets = WidgetReply(self._display, self._run, step, self._draw(step), self._redraw)
        if self._widgets is not None and not self._widgets.refused:
            self._widgets.show(step.content, step.reasoning)
        else:
            self._display.draw_soon(lambda: self._draw(self._newest))

    def _tell(self, step: RecordedStep, end: int) -> None:
        """Each piece is an output of its own."""
        if end == self._told:
            return
        piece = step.model_copy(
            update={"content": step.content[self._told : end], "reasoning": "" if self._told else step.reasoning}
        )
        self._told = end
        if piece.content.strip():
            Display(self._display.io).draw(self._draw(piece), settled=True)
