"""Which record comes after which: ids, parents, and the order in which records were made."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from kin_nb.core.session.records import (
    END,
    NEAREST,
    CompactRecord,
    Place,
    Ref,
    SessionRecord,
    TurnRecord,
    UndoRecord,
    sha256,
)


def new_id() -> str:
    """For a record that begins now: 16 hex digits."""
    return secrets.token_hex(8)


def derived_id(session: str, kind: str, number: int) -> str:
    """The id of a record that has none: the same for everybody who reads that session."""
    return sha256([session, kind, number])[:16]


class Lineage:
    """Where a conversation stands among the records that are known: `head`, None when it is empty."""

    def __init__(self) -> None:
        self.head: Ref | None = None
        self._after: dict[str, Ref | None] = {}
        """Of each record that was ever sent the place that it goes on from, in the conversation as it is known here."""
        self._seq = 0

    def next(self, head: Ref | None = None) -> dict[str, Any]:
        """id, parent, seq and ancestors of a record that is made now. `head`: of an undo, where it leads to."""
        return {
            "id": new_id(),
            "parent": self.head,
            "seq": self._seq + 1,
            "ancestors": self._ancestors(self.head if head is None else head),
        }

    def take(self, record: SessionRecord) -> None:
        """The conversation is where `record` leads to. What it names as its parent and is not known was taken before it."""
        self._seq = max(self._seq, record.seq)
        if isinstance(record, TurnRecord | CompactRecord):
            after = record.parent
            if after is not None and after.id not in self._after:
                after = self.head
            self._after[record.id] = after
        self.head = record.head

    def take_all(self, records: Iterable[SessionRecord]) -> None:
        """In the order in which they were made."""
        for record in sorted(records, key=lambda record: record.seq):
            self.take(record)

    def know(self, records: Iterable[SessionRecord]) -> None:
        """What is made from now on comes after these."""
        self._seq = max([self._seq, *(record.seq for record in records)])

    def before(self, turn_id: str) -> Ref | None:
        """The place before that turn, which was taken."""
        return self._after[turn_id]

    def _ancestors(self, ref: Ref | None) -> tuple[str, ...]:
        found: list[str] = []
        while ref is not None and len(found) < NEAREST:
            found.append(ref.id)
            ref = self._after[ref.id]
        return tuple(found)


def with_ids(turns: Iterable[TurnRecord], session: str = "") -> list[TurnRecord]:
    """`turns` of one session, oldest first: those that were recorded without an id get one, which `session` decides, if named."""
    found: list[TurnRecord] = []
    lineage = Lineage()
    for each in turns:
        turn = each
        if not turn.id:
            before = Place(turn=found[-1].turn, step=END) if found else None
            lineage.head = None if turn.fresh else ref_to(turn.origin or before, found, lineage)
            made = lineage.next()
            if session:
                made["id"] = derived_id(session, turn.type, turn.turn)
            turn = turn.model_copy(update=made)
        lineage.take(turn)
        found.append(turn)
    return found


def identified(undo: UndoRecord, turns: Sequence[TurnRecord], lineage: Lineage) -> UndoRecord:
    """`undo` with an id, where it was recorded without; it is made where the conversation of `turns` stands."""
    if undo.id:
        return undo
    head = ref_to(undo.to, turns, lineage)
    return undo.model_copy(update={**lineage.next(head), "head": head})


def ref_to(place: Place | None, turns: Sequence[TurnRecord], lineage: Lineage) -> Ref | None:
    """`place`, which is in one of `turns`, by the id of its turn. Before a prompt is what that goes on from."""
    turn = next((each for each in reversed(turns) if each.turn == place.turn), None) if place is not None else None
    if place is None or turn is None:
        return None
    return lineage.before(turn.id) if place.step == 0 else Ref(id=turn.id, step=place.step)
