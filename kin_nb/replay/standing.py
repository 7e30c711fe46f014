"""What of a session counts at its end: its turns without those that were taken back."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.context.checkpoints import branch
from kin_nb.core.session.records import Place, TurnRecord, UndoRecord


def standing_turns(turns: Sequence[TurnRecord], undos: Sequence[UndoRecord]) -> list[TurnRecord]:
    """The turns of the conversation as it stands at the end, oldest first.

    The last is cut short when the last undo went back to before one of its steps.
    """
    return branch(turns, last_place(turns, undos))


def last_place(turns: Sequence[TurnRecord], undos: Sequence[UndoRecord]) -> Place | None:
    """Where an undo or redo after the last turn left the conversation; None: at the end of that turn."""
    return undos[-1].to if undos and undos[-1].at == len(turns) else None
