"""Cells that run together: Run All sends every cell at once, and a model is not asked by one that merely stood among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.cell_io import CELL_ID, cell_io

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

PAUSE = 0.3
"""Seconds that a person takes at least to run the next cell."""
LONG_PAUSE = 1.0
"""The same for front ends that wait for the reply: it goes there and back."""


class Queued:
    """Whether the cell that runs now was sent before the one above it had ended, or right then (`behind`).

    Requests bear the time of the front end's clock (Jupyter's messaging: `header.date`), which is not the one told here: the
    least time that one took to come here, of each client, tells how the two differ. Front ends that name cells by URIs (VS
    Code) send each when the one above it has ended. Runners do so too; nobody is there.

    Code that a cell hands to IPython aloud (`%%capture`) is that cell's, and what comes after such code was sent with it.
    What runs silently nobody has typed: `%run` of a notebook, `ipython NOTEBOOK`.
    """

    def __init__(self, shell: InteractiveShell, now: Callable[[], float] = time.monotonic) -> None:
        self._shell, self._now = shell, now
        self._least: dict[Any, float] = {}
        self._ended = -inf
        self.cell: str | None = None
        """The request that runs; None in a terminal."""
        self._queued = self._ran_within = False
        self.behind = False
        self.executes()  # the cell that loads the extension

    def executes(self) -> None:
        """IPython's `pre_execute`, which is told of silent code too."""
        request = cell_io(self._shell).parent
        cell = request.get("header", {}).get("msg_id")  # none in a terminal
        if cell is not None and cell != self.cell:
            self.cell, self._ran_within = cell, False
            self._queued = self._is_behind(request)
        self.behind = True

    def cell_begins(self, _info: Any) -> None:
        """IPython's `pre_run_cell`, right after: it is not silent."""
        self.behind = self.cell is not None and (self._queued or self._ran_within)

    def cell_ran(self, _result: Any) -> None:
        """IPython's `post_run_cell`."""
        self._ended, self._ran_within = self._now(), True

    def _is_behind(self, request: Mapping[str, Any]) -> bool:
        header, now = request["header"], self._now()
        sent, client = header.get("date"), header.get("session")
        named = request.get("metadata", {}).get("cellId")
        pause = LONG_PAUSE if isinstance(named, str) and not CELL_ID.fullmatch(named) else PAUSE
        if isinstance(sent, datetime):
            self._least[client] = min(self._least.get(client, inf), now - sent.timestamp())
            now = sent.timestamp() + self._least[client]
        return now < self._ended + pause
