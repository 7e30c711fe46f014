"""Cells that run together: Run All sends every cell at once, and a model is not asked by one that merely stood among them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.cell_io import CELL_ID, cell_io

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

PAUSE = 0.2
"""Seconds."""


class Queued:
    """Whether the cell that runs now was sent before the one above it had ended (`behind`).

    Requests bear the time of the front end's clock (Jupyter's messaging: `header.date`), which is not the one told here: the
    least time that one took to come here, of each client, tells how the two differ. Front ends that name cells by URIs (VS
    Code) send each when the one above it has ended: there nobody is as fast as PAUSE. Runners do so too; nobody is there.
    Code that a cell hands to IPython is that cell's; what comes after such code (`%run` of a notebook) was sent with it.
    """

    def __init__(self, shell: InteractiveShell, now: Callable[[], float] = time.monotonic) -> None:
        self._shell, self._now = shell, now
        self._least: dict[Any, float] = {}
        self._ended = -inf
        self._cell = ""
        self._ran_within = False
        self.behind = False
        self.cell_begins(None)  # the one that loads the extension

    def cell_begins(self, _info: Any) -> None:
        """IPython's `pre_run_cell`."""
        request, now = cell_io(self._shell).parent, self._now()
        header = request.get("header", {})
        sent = header.get("date")
        if not isinstance(sent, datetime):  # a terminal's
            self.behind = False
        elif header.get("msg_id") == self._cell:
            self.behind = self.behind or self._ran_within
        else:
            self._cell, self._ran_within = header.get("msg_id"), False
            least = min(self._least.get(header.get("session"), inf), now - sent.timestamp())
            self._least[header.get("session")] = least
            named = request.get("metadata", {}).get("cellId")
            one_by_one = isinstance(named, str) and not CELL_ID.fullmatch(named)
            at_once = one_by_one and now - self._ended < PAUSE
            self.behind = at_once or sent.timestamp() + least < self._ended

    def cell_ran(self, _result: Any) -> None:
        """IPython's `post_run_cell`."""
        self._ended, self._ran_within = self._now(), True
