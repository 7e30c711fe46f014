"""What can go wrong with a recording, said to the person who can mend it."""

from __future__ import annotations

from kin_nb.core.session.records import TurnRecord


class ReplayError(Exception):
    """Base of this package's errors. The text says what and where, then what to do."""

    def _render_traceback_(self) -> list[str]:
        """IPython shows this instead of a stack trace; nbval counts it as a failure (a UsageError passes unseen)."""
        return [f"{type(self).__name__}: {self}"]


class RecordingError(ReplayError):
    """A notebook's recording is damaged, was edited by hand, or is not the one asked for."""


class UnreadableNotebookError(RecordingError):
    """The file is no notebook that can be read: truncated, too large, too deep, too old. `again`: try again shortly."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


class LaterFormatError(RecordingError):
    """A later kin_nb wrote this, in a form that this one cannot read."""


class MissingTextError(RecordingError):
    """A long text is neither in the notebook nor in its sidecar."""


class DoesNotFollowError(RecordingError):
    """Records that are whole, each by itself, and do not make one conversation: of two that went on from different places."""


class NoRecordingError(RecordingError):
    """The notebook holds no recording."""


class RecordingNotFoundError(ReplayError):
    """No file within reach holds the recording that a `%kin replay` cell names."""


class NotRecorded(ReplayError):  # noqa: N818  (a state of the notebook more than a fault)
    """No recorded turn has this cell's text.

    `after_last`: every turn was played, and this is a new cell, so a person may go on live. `turn`: the one in whose
    place the cell stands.
    """

    def __init__(self, message: str, *, after_last: bool = False, turn: TurnRecord | None = None) -> None:
        super().__init__(message)
        self.after_last = after_last
        self.turn = turn


class AmbiguousTurn(ReplayError):  # noqa: N818  (as NotRecorded)
    """Several recorded turns have this cell's text and none is next."""


class ReplayEndedError(ReplayError):
    """The agent asked for a reply that the recording does not have."""
