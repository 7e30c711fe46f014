"""One output of a cell, and how often it may be drawn; and progress, a line at the end of the cell while anything takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from kin_nb.notebook.cell_io import CellOutput
from kin_nb.render import Output
from kin_nb.render.card import render_progress

INTERVAL = 0.1
"""Seconds between two updates of one display, at the least."""
BYTES_PER_SECOND = 7_000
"""A whole text that grows is redrawn less often the longer it is: the wire stays linear."""


class Display:
    """A display that is redrawn at most every INTERVAL, and always in its last state."""

    def __init__(self, io: CellOutput) -> None:
        self.display_id = f"kin-{uuid4().hex}"
        self.io = io
        self.shown = False
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def draw(self, output: Output, *, settled: bool = False) -> None:
        """Draw now. If outputs cannot be redrawn (in a terminal), only the final state is shown."""
        self.cancel()
        if settled or self.io.updates_in_place:
            self._size = sum(map(len, output.data.values()))
            self.put(output.data, output.metadata)

    def put(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Draw this now, and cancel a scheduled drawing."""
        self.cancel()
        self.io.display(data, metadata, display_id=self.display_id, update=self.shown)
        self.shown = True

    def draw_soon(self, render: Callable[[], Output]) -> None:
        """Schedule a drawing, unless one is scheduled. It renders when it is due, so it shows the newest state."""
        if not self.io.updates_in_place:
            return
        if not self.shown:
            self.draw(render())
        elif self._timer is None:
            wait = max(INTERVAL, self._size / BYTES_PER_SECOND)
            self._timer = asyncio.get_running_loop().call_later(wait, lambda: self.draw(render()))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_SECONDS = 1.0


class Progress:
    """The line uses the display of the next output: `take` hands that over, so the number of outputs stays the same.

    `figures` says what the turn has taken so far. Where nothing can be redrawn, a person who reads along gets one line for
    each thing that takes long.
    """

    def __init__(
        self, new_display: Callable[[], Display], figures: Callable[[], str], display: Display | None = None
    ) -> None:
        self._new_display, self._figures = new_display, figures
        self._display = display
        self._what = ""
        self._seconds = 0
        self._timer: asyncio.TimerHandle | None = None

    def doing(self, what: str) -> None:
        """Set the activity that the progress line shows."""
        self._begin(what)
        self._arm()

    def doing_now(self, what: str) -> None:
        """Set the activity, and show it at once: it is known to take long."""
        self._begin(what)
        self._show()

    def rest(self) -> None:
        """Pause: another output shows progress, or the user is asked."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take(self) -> Display:
        """Return the display for the next output."""
        display, self._display = self._display or self._new_display(), None
        return display

    def _begin(self, what: str) -> None:
        self.rest()
        self._what, self._seconds = what, 0

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._tick)

    def _tick(self) -> None:
        self._seconds += 1
        self._show()

    def _show(self) -> None:
        display = self._display or self._new_display()
        output = render_progress(self._what, self._seconds, self._figures())
        if display.io.is_watched:
            self._display = display
            display.draw(output)
            self._arm()
        elif not display.io.updates_in_place:
            display.io.stream(f"… {output.data['text/plain']}\n")
