"""BlockedMode: what is recorded could not be read, so no cell plays it, and none asks a model instead."""

from __future__ import annotations

from kin_nb.core.session.records import SessionRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.modes.mode import Cell, Leave


class BlockedMode:
    """`why`: the beginning of a sentence."""

    is_live = False
    last = None
    name = "nothing plays, and no model is asked"

    def __init__(self, why: str) -> None:
        self._why = why

    def run(self, cell: Cell) -> Leave:
        if cell.options.live:
            return Leave("")
        raise KinError(f"{self._why}, so this cell plays nothing and calls no model. `%kin live` to ask.")

    def move(self, command: str, io: CellOutput) -> SessionRecord:  # noqa: ARG002
        raise KinError(f"{self._why}, so {command} does nothing here. `%kin live` to ask a model.")

    def close(self) -> None:
        """Nothing is open."""
