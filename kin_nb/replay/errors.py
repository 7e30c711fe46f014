"""Errors about recordings: the message says what is wrong and where, then what to do."""

from __future__ import annotations

from kin_nb.core.records import TurnRecord


class ReplayError(Exception):
    """Base of this package's errors. The text says what and where, then what to do."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a stack trace; nbval counts it as a failure (unlike a UsageError)."""
        return [str(self)]


class RecordingError(ReplayError):
    """A notebook's recording is damaged, was edited by hand, or is not the one asked for."""


class UnreadableNotebookError(RecordingError):
    """The notebook file cannot be read: truncated, too large, too deep, too old. `again`: try again shortly."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


class LaterFormatError(RecordingError):
    """A later kin_nb wrote this, in a form that this one cannot read."""


class MissingTextError(RecordingError):
    """A long text is neither in the notebook nor in its sidecar."""


class NoRecordingError(RecordingError):
    """The notebook holds no recording."""


class RecordingNotFoundError(ReplayError):
    """No file within reach holds the recording that a `%kin replay` cell names."""


class NotRecorded(ReplayError):  # noqa: N818  (a state of the notebook more than a fault)
    """No record was made by a cell with this text. `turn`: the last one of this very cell, which had another."""

    def __init__(self, message: str, *, turn: TurnRecord | None = None) -> None:
        super().__init__(message)
        self.turn = turn


class AmbiguousTurn(ReplayError):  # noqa: N818  (as NotRecorded)
    """Several cells have this text, and nothing says which of them is meant."""


class ReplayEndedError(ReplayError):
    """The agent asked for a reply that the recording does not have."""
