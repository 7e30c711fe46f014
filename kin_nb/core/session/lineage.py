"""The tree of records: ids, parents, and the order in which they were made."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

from kin_nb.core.records import END, NEAREST, ClearRecord, Ref, Sent, SessionRecord, TurnRecord, UndoRecord, sha256


def new_id() -> str:
    """Return a random record id: 16 hex digits."""
    return secrets.token_hex(8)


def derived_id(session: str, kind: str, number: int) -> str:
    """Return the id of a record that was stored without one: every reader computes the same."""
    return sha256([session, kind, number])[:16]


class Lineage:
    """The tree of a session's records, and the conversation's head in it.

    `head`: parent of the next record; None when the conversation is empty. `seq`: the highest known sequence number.
    """

    def __init__(self, seq: int = 0) -> None:
        self.head: Ref | None = None
        self._cleared: Ref | None = None
        """Head of the cleared conversation, until a record follows the clear."""
        self._parents: dict[str, Ref | None] = {}
        """The parents of turns and compactions, by id, as far as known."""
        self._previous: dict[str, Ref | None] = {}
        """The same, except for the first record after a clear: it has the cleared head, which undo can reach."""
        self.seq = seq

    def next(self, head: Ref | None = None) -> dict[str, Any]:
        """Return id, parent, seq and ancestors of the next record. `head`: the new head, for the record of an undo."""
        return {
            "id": new_id(),
            "parent": self.head,
            "seq": self.seq + 1,
            "ancestors": self._ancestors(self.head if head is None else head),
        }

    @property
    def position(self) -> tuple[Ref | None, Ref | None]:
        """(head, head of the conversation that was just cleared): the argument of `move_to`."""
        return self.head, self._cleared

    def move_to(self, position: tuple[Ref | None, Ref | None]) -> None:
        """Set the head, without a record."""
        self.head, self._cleared = position

    def add(self, record: SessionRecord) -> None:
        """Add `record` and move the head to it, or to its target for an undo. An unknown parent is replaced by the head."""
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

    def see(self, records: Iterable[SessionRecord]) -> None:
        """Raise `seq`, so that the next record is numbered after `records`."""
        self.seq = max([self.seq, *(record.seq for record in records)])

    def before(self, record_id: str) -> Ref | None:
        """Return the parent of a turn or a compaction."""
        return self._parents[record_id]

    def before_first(self, undo: UndoRecord) -> Ref | None:
        """Return the ref before all turns that `undo` names, also when it is before a clear."""
        return self._previous.get(undo.turn_ids[0])

    def position_before(self, turn_id: str) -> tuple[Ref | None, Ref | None]:
        """Return the position after an undo of that turn."""
        parent = self._parents[turn_id]
        return parent, self._previous[turn_id] if parent is None else None

    def path(self) -> Iterator[Ref]:
        """Yield the refs from the current position to the root, the last first, also those before a clear."""
        yield from self.path_to(self.position)

    def path_to(self, position: tuple[Ref | None, Ref | None]) -> Iterator[Ref]:
        """Yield the refs from `position` to the root, the last first."""
        place = position[0] or position[1]
        while place is not None:
            yield place
            place = self._previous[place.id]

    def conversation(self) -> Iterator[Ref]:
        """Yield the refs of the conversation that the model sees, the last first."""
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
    """Return `records` with ids and parents: a record without an id gets the one before it as its parent.

    `session`: the ids are derived from it and the turn number; "": random ids. `after`: the `seq` before the first.
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
        lineage.add(record)
        found.append(record)
    return found


def turns_on_path(line: Iterable[Ref], turns: Iterable[TurnRecord]) -> list[TurnRecord]:
    """Return the turns on `line`, the oldest first. `line` has the last ref first.

    A turn that is left before one of its steps keeps the earlier steps; one that is left before its prompt is omitted.
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
