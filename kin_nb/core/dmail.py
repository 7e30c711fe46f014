"""D-Mail (rewind): the model returns to an earlier step, with a message to itself (seed 001). Off unless `dmail = true`.

The conversation returns to the place before one of this turn's steps. The message replaces everything since then. Files
are not changed. The user's prompt is always kept, because it comes before the first step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kin_nb.core.context.checkpoints import Checkpoint
from kin_nb.core.tool_types import ToolError


@dataclass(frozen=True)
class DMail:
    checkpoint_id: int
    message: str


class BackToTheFuture(Exception):  # noqa: N818  (seed 001's name)
    """Raised after a step that sent a D-Mail: the turn continues from `checkpoint`."""

    def __init__(self, checkpoint: Checkpoint, message: str) -> None:
        super().__init__(f"back to checkpoint {checkpoint.id}")
        self.checkpoint, self.message = checkpoint, message


class DenwaRenji:
    """The D-Mails of one turn: at most one is pending, and at most `most` are delivered.

    The names of this class, `send_dmail` and `fetch_pending_dmail` are those of seed 001.
    """

    def __init__(self, most: int) -> None:
        self._left = self._most = most
        self._checkpoints: list[Checkpoint] = []
        self._pending: DMail | None = None

    def offer(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Set the checkpoints that the model can return to now."""
        self._checkpoints = list(checkpoints)

    def send_dmail(self, mail: DMail) -> None:
        """Add a D-Mail. Raises ToolError, with the reason, if it cannot be sent."""
        if not self._left:
            raise ToolError(f"{self._most} D-Mails were sent in this turn; there will be no more. Continue from here.")
        if self._pending is not None:
            raise ToolError("A D-Mail is on its way already.")
        if not mail.message.strip():
            raise ToolError("The D-Mail is empty: write what your past self must know.")
        if mail.checkpoint_id not in {checkpoint.id for checkpoint in self._checkpoints}:
            ids = ", ".join(str(checkpoint.id) for checkpoint in self._checkpoints)
            raise ToolError(f"Checkpoint {mail.checkpoint_id} does not exist in this turn. Choose one of: {ids}.")
        self._pending = mail

    def fetch_pending_dmail(self) -> DMail | None:
        mail, self._pending = self._pending, None
        return mail

    def deliver(self) -> None:
        """Raise BackToTheFuture if a D-Mail is pending."""
        mail = self.fetch_pending_dmail()
        if mail is not None:
            self._left -= 1
            raise BackToTheFuture(next(c for c in self._checkpoints if c.id == mail.checkpoint_id), mail.message)

    def shown(self) -> str:
        """Return the note about the newest checkpoint. The notes of the earlier ones are still in the conversation."""
        return f"Checkpoint {self._checkpoints[-1].id} is here, before your next reply."
