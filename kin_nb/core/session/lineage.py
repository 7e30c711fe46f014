"""Which record comes after which: ids, parents, and the order in which records were made."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

from kin_nb.core.records import END, NEAREST, ClearRecord, Ref, Sent, SessionRecord, TurnRecord, UndoRecord, sha256


def new_id() -> str:
    """Return an id for a record that begins now: 16 hex digits."""
    return secrets.token_hex(8)


def derived_id(session: str, kind: str, number: int) -> str:
    """Return the id of a record that has none: the same for everybody who reads that session."""
    return sha256([session, kind, number])[:16]


class Lineage:
    """The records of a session in their order, and the place of its conversation among them.

    `head`: what the next record comes after; None when the conversation is empty. `seq`: the highest that is known.
    """

    def __init__(self, seq: int = 0) -> None:
        self.head: Ref | None = None
        self._cleared: Ref | None = None
        """Where the conversation was that was cleared, while no record came after the clear."""
        self._parents: dict[str, Ref | None] = {}
        """By the id of a turn or a compaction the place before it in its conversation, as far as that is known here."""
        self._previous: dict[str, Ref | None] = {}
        """The same; of the first record after a clear the place that was cleared, which undo can reach."""
        self.seq = seq

    def next(self, head: Ref | None = None) -> dict[str, Any]:
        """Return id, parent, seq and ancestors of a record that is made now. `head`: of an undo, where it leads to."""
        return {
            "id": new_id(),
            "parent": self.head,
            "seq": self.seq + 1,
            "ancestors": self._ancestors(self.head if head is None else head),
        }

    @property
    def position(self) -> tuple[Ref | None, Ref | None]:
        """Head, and the place that was cleared just before: what `move_to` takes."""
        return self.head, self._cleared

    def move_to(self, position: tuple[Ref | None, Ref | None]) -> None:
        """Set the place of the conversation, without a record of it."""
        self.head, self._cleared = position

    def take(self, record: SessionRecord) -> None:
        """Move to where `record` leads. A parent that is not known is taken for the record before it."""
        self.seq = max(self.seq, record.seq)
        match record:
            case UndoRecord():
                back = record.type == "undo"
                cleared = self.before_first(record) if back else Ref(id=record.turn_ids[-1])
                self.move_to((record.head, cleared if record.head is None else None))
            case ClearRecord():
                self.move_to((None, self.head or self._cleared))
            case _:
                parent = record.parent
                if parent is not None and parent.id not in self._parents:
                    parent = self.head
                self._parents[record.id] = parent
                self._previous[record.id] = parent or self.head or self._cleared
                self.move_to((record.head, None))

    def know(self, records: Iterable[SessionRecord]) -> None:
        """Make what comes next come after these too."""
        self.seq = max([self.seq, *(record.seq for record in records)])

    def before(self, record_id: str) -> Ref | None:
        """Return the place before that turn or compaction in its conversation."""
        return self._parents[record_id]

    def before_first(self, undo: UndoRecord) -> Ref | None:
        """Return the place before all of the turns that `undo` names, also where that is before a clear."""
        return self._previous.get(undo.turn_ids[0])

    def position_before(self, turn_id: str) -> tuple[Ref | None, Ref | None]:
        """Return the position that undo of that turn leads to."""
        parent = self._parents[turn_id]
        return parent, self._previous[turn_id] if parent is None else None

    def line(self) -> Iterator[Ref]:
        """The places that lead to here, the last first: turns and compactions, also those before a clear."""
        yield from self.line_to(self.position)

    def line_to(self, position: tuple[Ref | None, Ref | None]) -> Iterator[Ref]:
        """The same for another position."""
        place = position[0] or position[1]
        while place is not None:
            yield place
            place = self._previous[place.id]

    def conversation(self) -> Iterator[Ref]:
        """The places of the conversation, the last first: what the model is told of."""
        place = self.head
        while place is not None:
            yield place
            place = self._parents[place.id]

    def _ancestors(self, ref: Ref | None) -> tuple[str, ...]:
        found: list[str] = []
        while ref is not None and len(found) < NEAREST:
            found.append(ref.id)
            ref = self._parents[ref.id]
        return tuple(found)


def with_ids(records: Iterable[Sent], session: str = "", *, after: int = 0) -> list[Sent]:
    """Give an id and a place to those of `records` that have none: each comes after the one before it.

    `session`: the ids follow from it and the number of each turn; "": they are random. `after`: the `seq` that they come after.
    """
    found: list[Sent] = []
    lineage = Lineage(after)
    for each in records:
        record = each
        if not record.id:
            made = lineage.next()
            if session and isinstance(record, TurnRecord):
                made["id"] = derived_id(session, record.type, record.turn)
            record = record.model_copy(update=made)
        lineage.take(record)
        found.append(record)
    return found


def turns_along(line: Iterable[Ref], turns: Iterable[TurnRecord]) -> list[TurnRecord]:
    """Return those of `turns` that `line` names, the last first there and the first first here.

    One that the line leaves before a step keeps the steps until there; one that it leaves before its prompt is left out.
    """
    known = {turn.id: turn for turn in turns}
    found = []
    for place in line:
        turn = known.get(place.id)
        if turn is not None and place.step == END:
            found.append(turn)
        elif turn is not None and place.step > 0:
            found.append(turn.model_copy(update={"steps": turn.steps[: place.step - 1]}))
    return found[::-1]
