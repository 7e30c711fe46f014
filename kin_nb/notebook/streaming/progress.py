"""Progress: a line at the end of the cell while anything takes longer than a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kin_nb.notebook.streaming.display import Display
from kin_nb.render.card import render_progress

_SECONDS = 1.0


class Progress:
    """It stands in the display of whatever comes next: `take` hands that over, so the cell's outputs stay as they are counted.

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
        """From now on this is what takes its time."""
        self._begin(what)
        self._arm()

    def doing_now(self, what: str) -> None:
        """As `doing`, and shown at once: it is known that it takes long."""
        self._begin(what)
        self._show()

    def rest(self) -> None:
        """Something else shows that it goes on, or a person is asked."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take(self) -> Display:
        """The display of what comes next."""
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
