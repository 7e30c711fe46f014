"""Commands that playback passed by: a prompt that went live below them would go on from elsewhere than is meant."""

from __future__ import annotations

from typing import Any

from kin_nb.core.session.records import TurnRecord
from kin_nb.notebook.errors import KinError
from kin_nb.replay.format.carrying import carried_in

_MOVE = {"undo", "redo", "clear"}
"""Commands after which a prompt goes on from elsewhere."""


class PassedBy:
    """The last command that would have moved the conversation of `nb`, and did not; none at first."""

    def __init__(self, nb: Any = None) -> None:
        self._cells = {str(cell["id"]): cell for cell in nb["cells"] if cell.get("id")} if nb is not None else {}
        self._command = ""
        self._is_new = False

    def add(self, command: str, cell_id: str | None) -> bool:
        """`command` did nothing in that cell. Whether it ran and failed there before, and was saved so: then it is not missed."""
        cell = self._cells.get(cell_id or "")
        was_there = cell is not None and command in cell["source"] and bool(cell.get("outputs"))
        failed = was_there and command != "clear" and _failed(cell)
        if command in _MOVE and not failed:
            self._command, self._is_new = command, not was_there
        return failed

    def found_in_log(self) -> None:
        """What comes next; what was undone until there, when these cells ran, is in the log too."""
        if not self._is_new:
            self._command = ""

    def plays(self, turn: TurnRecord, last: TurnRecord | None) -> None:
        """`turn` is played, after `last`. What it went on from is known, and a command that was there then is in that."""
        if turn.fresh or (not self._is_new and (last is None or turn.turn > last.turn)):
            self._command = ""

    def check(self) -> None:
        """Before a prompt goes live. Raises KinError."""
        if self._command:
            raise KinError(
                f"`%kin {self._command}` above did nothing, since this notebook is in playback, so this prompt would go on "
                "from elsewhere than you mean. `%kin live`, then run both again."
            )


def _failed(cell: Any) -> bool:
    """Whether its outputs are an error, or the notice that playback shows in its place, and of nothing that was done."""
    return any(_is_error(output) for output in cell.get("outputs", [])) and not any(carried_in(cell))


def _is_error(output: Any) -> bool:
    metadata = output.get("metadata")
    kin = metadata.get("kin") if isinstance(metadata, dict) else None
    return output["output_type"] == "error" or (isinstance(kin, dict) and kin.get("level") == "error")
