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
        behind = self.runs()
        self.ends(ends)
        return behind

    def runs(self, *, silent: bool = False) -> bool:
        self.queued.executes()
        if not silent:
            self.queued.cell_begins(None)
        return self.queued.behind

    def dateless(self) -> None:
        self._parent["header"]["date"] = "today"

    def ends(self, at: float) -> None:
        self.clock = at + self._skew
        self.queued.cell_ran(None)


@pytest.mark.parametrize("skew", [-3600.0, -0.5, 0.0, 0.5, 3600.0])
def test_what_was_sent_meanwhile_is_behind_and_what_was_sent_afterwards_is_not(skew):
    kernel = Kernel(skew)
    kernel.ends(101.0)  # the cell that loaded the extension
    assert kernel.cell(sent=100.01, begins=101.0, ends=101.5)
    assert kernel.cell(sent=100.02, begins=101.5, ends=102.0)
    assert kernel.cell(sent=102.05, begins=102.06, ends=103.0), "it came late, but nobody is that fast"
    assert not kernel.cell(sent=103.4, begins=103.41, ends=104.0)
    assert kernel.cell(sent=103.9, begins=104.0, ends=104.1), "a person did not wait"
    assert not kernel.cell(sent=110.0, begins=110.01, ends=110.1)


def test_code_that_a_cell_hands_to_ipython_is_that_cells_and_what_comes_after_that_is_behind():
    """%%capture hands on its cell, which is all that it has."""
    kernel = Kernel(0.0)
    kernel.ends(101.0)
    kernel.begins(sent=105.0, at=105.01)
    kernel.runs()
    behind = []
    for ended in (105.1, 105.2, 105.3):
        behind.append(kernel.runs())
        kernel.ends(ended)
    assert behind == [False, True, True]
    kernel.ends(105.4)
    assert not kernel.cell(sent=110.0, begins=110.01, ends=110.1)


def test_what_a_cell_hands_on_silently_is_behind():
    """All cells of a notebook that %run runs."""
    kernel = Kernel(0.0)
    kernel.ends(101.0)
    kernel.begins(sent=105.0, at=105.01)
    assert not kernel.runs()
    assert kernel.runs(silent=True)
    kernel.ends(105.4)
    assert not kernel.cell(sent=110.0, begins=110.01, ends=110.1)


def test_requests_between_cells_that_a_front_end_sends_silently_change_nothing():
    """Those of a variable inspector."""
    kernel = Kernel(0.0)
    kernel.ends(101.0)
    kernel.begins(sent=104.9, at=104.91)
    assert kernel.runs(silent=True), "no person's"
    assert not kernel.cell(sent=105.0, begins=105.01, ends=106.0)


def test_without_a_date_the_pause_counts():
    kernel = Kernel(0.0)
    kernel.ends(101.0)
    for at, behind in ((101.1, True), (105.0, False)):
        kernel.begins(sent=0.0, at=at)
        kernel.dateless()
        assert kernel.runs() is behind


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
    assert kernel.cell(sent=101.5, begins=101.6, ends=102.0, cell_id=uri), "the reply and the next took their time"
    assert not kernel.cell(sent=103.5, begins=103.51, ends=104.0, cell_id=uri)


def test_in_a_terminal_what_is_silent_was_not_typed():
    """`ipython NOTEBOOK` runs its cells so."""
    queued = Queued(SimpleNamespace(kernel=None))
    queued.cell_ran(None)
    queued.executes()
    assert queued.behind
    queued.cell_begins(None)
    assert not queued.behind
