"""Turn hooks: what a front end knows of the world around a turn, and the agent does not: noted in the turn's own record.

So the cell, the saved notebook and playback show the same notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kin_nb.core.records import FileChange


class TurnHook(Protocol):
    """One of `Agent.turn_hooks`. Both are called on the agent's loop, which waits: look at little, and await nothing."""

    def on_turn_start(self) -> None:
        """A turn begins, or an undo that is done is recorded."""

    def on_turn_end(self, files: Sequence[FileChange]) -> Iterable[str]:
        """It ends, however it does. `files`: what its calls changed, oldest first, as recorded. Returns a line for each note."""


class TurnHooks(list[TurnHook]):
    """The hooks of one agent. No turn fails because one of them does: a note says so."""

    def start(self, warn: Callable[[str], None]) -> None:
        for hook in self:
            try:
                hook.on_turn_start()
            except Exception as error:  # noqa: BLE001  (no turn fails for a note)
                warn(_failed(error))

    def end(self, files: Sequence[FileChange], redact: Callable[[str], str]) -> list[str]:
        """Return the notes of all hooks."""
        notes: list[str] = []
        for hook in self:
            try:
                notes += hook.on_turn_end(files)
            except Exception as error:  # noqa: BLE001  (the record is being closed)
                notes.append(_failed(error))
        return [redact(text) for text in notes]


def _failed(error: Exception) -> str:
    return f"a remark on this turn could not be made: {type(error).__name__}."
