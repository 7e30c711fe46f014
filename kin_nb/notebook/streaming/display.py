"""One output of a cell, and how often it may be drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from kin_nb.notebook.cell_io import CellOutput
from kin_nb.render import Output

INTERVAL = 0.1
"""Seconds between two updates of one display, at the least."""
BYTES_PER_SECOND = 7_000
"""A whole text that grows is redrawn less often the longer it is: the wire stays linear."""


class Display:
    """Drawn at most every INTERVAL and always in its last state."""

    def __init__(self, io: CellOutput) -> None:
        self.display_id = f"kin-{uuid4().hex}"
        self.io = io
        self.shown = False
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def draw(self, output: Output, *, settled: bool = False) -> None:
        """Now. Where nothing can be redrawn (a terminal), only the settled state is shown."""
        self.cancel()
        if settled or self.io.updates_in_place:
            self._size = sum(map(len, output.data.values()))
            self.put(output.data, output.metadata)

    def put(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """In place of whatever was to be drawn."""
        self.cancel()
        self.io.display(data, metadata, display_id=self.display_id, update=self.shown)
        self.shown = True

    def draw_soon(self, render: Callable[[], Output]) -> None:
        """Unless a drawing is due already: it renders when its time comes, so it shows the newest state."""
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
