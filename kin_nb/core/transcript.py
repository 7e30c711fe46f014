"""Transcript: the records of a session in memory, as the log has them."""

from __future__ import annotations

from kin_nb.core.records import Moved, SessionRecord, TurnRecord, UndoRecord


class Transcript:
    """`turns`, the last of which may still run, and `moves`, what came between them; both oldest first."""

    def __init__(self) -> None:
        self.turns: list[TurnRecord] = []
        self.moves: list[Moved] = []

    def add(self, record: SessionRecord) -> None:
        if isinstance(record, TurnRecord):
            self.turns.append(record)
        else:
            self.moves.append(record)

    def fail_last(self, message: str) -> bool:
        """Note that the last turn, which was done, failed after all. False when it was not done."""
        if self.turns[-1].outcome != "done":
            return False
        self.turns[-1] = self.turns[-1].model_copy(update={"outcome": "error", "message": message})
        return True

    @property
    def undos(self) -> list[UndoRecord]:
        """Every undo and redo."""
        return [record for record in self.moves if isinstance(record, UndoRecord)]

    @property
    def records(self) -> list[SessionRecord]:
        """All of them, in the order in which it happened."""
        return sorted([*self.turns, *self.moves], key=lambda record: record.seq)
