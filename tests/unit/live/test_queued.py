"""Which cells were sent before those above them had ended, told by two clocks that differ."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kin_nb.notebook.queued import Queued


class Kernel:
    """`skew`: seconds that its clock is ahead of the front end's."""

    def __init__(self, skew: float) -> None:
        self._skew, self.clock, self.cells = skew, 100.0, 0
        self.ident, self.session, self.iopub_socket = "k", None, None
        self._parent: dict = {}
        self.begins(sent=100.0, at=100.3)
        self.queued = Queued(SimpleNamespace(kernel=self), lambda: self.clock)

    def get_parent(self, _channel: str) -> dict:
        return self._parent

    def begins(self, *, sent: float, at: float, cell_id: str = "id-1", client: str = "me") -> None:
        """Seconds of the front end's clock, both."""
        self.cells += 1
        self.clock = at + self._skew
        header = {"date": datetime.fromtimestamp(sent, UTC), "msg_id": str(self.cells), "session": client}
        self._parent = {"header": header, "metadata": {"cellId": cell_id}}

    def cell(self, *, sent: float, begins: float, ends: float, **of: str) -> bool:
        self.begins(sent=sent, at=begins, **of)
        self.queued.cell_begins(None)
        behind = self.queued.behind
        self.ends(ends)
        return behind

    def ends(self, at: float) -> None:
        self.clock = at + self._skew
        self.queued.cell_ran(None)


@pytest.mark.parametrize("skew", [-3600.0, -0.5, 0.0, 0.5, 3600.0])
def test_what_was_sent_meanwhile_is_behind_and_what_was_sent_afterwards_is_not(skew):
    kernel = Kernel(skew)
    kernel.ends(101.0)  # the cell that loaded the extension
    assert kernel.cell(sent=100.01, begins=101.0, ends=101.5)
    assert kernel.cell(sent=100.02, begins=101.5, ends=102.0)
    assert not kernel.cell(sent=102.001, begins=102.01, ends=103.0), "a runner sends the next as soon as one has ended"
    assert kernel.cell(sent=102.9, begins=103.0, ends=103.1), "a person did not wait"
    assert not kernel.cell(sent=110.0, begins=110.01, ends=110.1)


def test_code_that_a_cell_hands_to_ipython_is_that_cells_and_what_comes_after_that_is_behind():
    """%%capture hands on its cell, and %run all of a notebook."""
    kernel = Kernel(0.0)
    kernel.ends(101.0)
    kernel.begins(sent=105.0, at=105.01)
    kernel.queued.cell_begins(None)
    behind = []
    for ended in (105.1, 105.2, 105.3):
        kernel.queued.cell_begins(None)
        behind.append(kernel.queued.behind)
        kernel.ends(ended)
    assert behind == [False, True, True]
    kernel.ends(105.4)
    assert not kernel.cell(sent=110.0, begins=110.01, ends=110.1)


def test_the_clocks_of_two_people_on_one_kernel_may_differ():
    kernel = Kernel(0.0)
    kernel.ends(101.0)
    assert not kernel.cell(sent=125.0, begins=105.01, ends=106.0, client="you")
    assert not kernel.cell(sent=110.0, begins=110.01, ends=111.0)
    assert kernel.cell(sent=110.5, begins=111.0, ends=112.0)
    assert kernel.cell(sent=131.0, begins=112.0, ends=113.0, client="you")


def test_vs_code_sends_the_next_when_one_has_ended():
    kernel, uri = Kernel(0.0), "vscode-notebook-cell:/home/me/a.ipynb#W0sZmlsZQ"
    kernel.ends(101.0)
    assert kernel.cell(sent=101.02, begins=101.03, ends=102.0, cell_id=uri)
    assert not kernel.cell(sent=102.5, begins=102.51, ends=103.0, cell_id=uri)


def test_a_terminal_has_no_requests():
    shell = SimpleNamespace(kernel=None)
    queued = Queued(shell)
    queued.cell_ran(None)
    queued.cell_begins(None)
    assert not queued.behind
