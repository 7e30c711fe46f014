"""A named session of a notebook that plays: what its own outputs and the log have of it, and the way live, are its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.session.records import TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import InPlaybackError, KinError
from kin_nb.notebook.replaying import Replaying
from kin_nb.replay.cells.matching import Undoing
from kin_nb.replay.errors import NotRecorded, ReplayError
from kin_nb.replay.runner.scratch import Scratch

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession

_SESSION = {"T": "Session", "t": "session"}
"""In place of "this notebook", by its first letter."""


class ReplayingBeside(Replaying):
    """`own`: what the notebook's own session does. Commands that errors and notices advise name this session."""

    _begins_empty = True

    def __init__(self, own: Replaying, name: str) -> None:
        super().__init__(own.recorded_beside(name), None, nb=own.nb)
        self._own, self._name = own, name

    @property
    def scratch(self) -> Scratch | None:
        return self._own.scratch

    def run_cell(self, session: KinSession, *cell: Any, **how: Any) -> TurnRecord | None:
        with self._advising():
            return super().run_cell(session, *cell, **how)

    def undo(self, session: KinSession, asked: Undoing, io: CellOutput) -> None:
        with self._advising():
            super().undo(session, asked, io)

    def pass_by(self, session: KinSession, command: str, error: InPlaybackError | NotRecorded, io: CellOutput) -> None:
        with self._advising():
            super().pass_by(session, command, type(error)(self._named(error)), io)

    def check_nothing_passed_by(self) -> None:
        with self._advising():
            super().check_nothing_passed_by()

    def end(self, session: KinSession) -> Agent:
        if self.scratch is not None:
            raise KinError(
                "This notebook plays in a scratch copy, where nothing live can begin. `%kin live` leaves it."
            )
        return super().end(session)

    @contextmanager
    def _advising(self) -> Iterator[None]:
        try:
            yield
        except (KinError, ReplayError) as error:
            error.args = (self._named(error),)
            raise

    def _named(self, error: Exception) -> str:
        text = re.sub(r"`%kin (?!--session )", f"`%kin --session {self._name} ", str(error))
        return re.sub(r"([Tt])his notebook is", lambda found: f"{_SESSION[found[1]]} {self._name} is", text)
