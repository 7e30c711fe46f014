"""Book: all records that a notebook holds, known by their ids; where its conversation stands, and what that consists of.

Records are found at several places: in cells' metadata (`kin-nb save`), in outputs' metadata (live cells), in the copy that the
first cell keeps. No place counts more than another: records of one id are equal, or one was changed by hand, which is an error.
Numbers are labels for people. What comes after what is said by each record's `parent`, what came last by its `seq`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from kin_nb.core.session.records import (
    END,
    CompactRecord,
    Ref,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.replay.cells.matching import following_key
from kin_nb.replay.errors import RecordingError

Sent: TypeAlias = TurnRecord | CompactRecord
"""What the model is told of: a turn, and a summary in place of all that came before it."""


@dataclass(frozen=True)
class CellEntry:
    """A cell that asks, or moves the conversation: its id (None where the file has none), its text's key, its `records`.

    `session`: the name of the conversation that it speaks to, "" for the notebook's own. `number`: from 1, for messages.
    `records`: in the order of their `seq`, each once; also those whose text was another one.
    """

    cell_id: str | None
    key: str
    records: tuple[SessionRecord, ...] = ()
    session: str = ""
    number: int = 0

    @property
    def shown(self) -> tuple[SessionRecord, ...]:
        """What the cell shows: what its last run made that was asked with the text that it has now."""
        return last_run(self.records, self.key)


@dataclass(frozen=True)
class Conversation:
    """What is sent, oldest first; the last turn may be cut short. `missing`: ids of what should be there and is nowhere."""

    sent: tuple[Sent, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        return tuple(each for each in self.sent if isinstance(each, TurnRecord))


@dataclass(frozen=True)
class Book:
    """`cells`: in the notebook's order. Raises RecordingError for two records with one id that differ."""

    cells: Sequence[CellEntry]
    records: Mapping[str, SessionRecord] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, SessionRecord] = {}
        for cell in self.cells:
            for record in cell.records:
                if found.setdefault(record.id, record) != record:
                    raise RecordingError(
                        f"cell {cell.number}, {label(record)}: another cell holds it too, and they differ"
                    )
        object.__setattr__(self, "records", found)

    def head(self, session: str = "") -> SessionRecord | None:
        """The record that a conversation ends with: of the highest `seq`. Of two branches that ends in the upper cell."""
        own = (record for cell in self.cells if cell.session == session for record in cell.records)
        return max(own, key=lambda record: record.seq, default=None)

    def conversation(self, at: SessionRecord | None) -> Conversation:
        """What is sent with a prompt that comes after `at`; None: nothing."""
        if at is None:
            return Conversation()
        sent: list[Sent] = []
        missing: list[str] = []
        ref, ancestors = at.head, at.ancestors
        while ref is not None:
            record = self.records.get(ref.id)
            if isinstance(record, TurnRecord | CompactRecord):
                sent.append(cut_before(record, ref.step) if isinstance(record, TurnRecord) else record)
                ref, ancestors = record.parent, record.ancestors
                continue
            # its cell is gone: the nearest one before it that is here is gone on from
            missing.append(ref.id)
            here = [n for n, each in enumerate(ancestors) if each != ref.id and each in self.records]
            lost = ancestors[: here[0]] if here else ancestors
            missing += [each for each in lost if each not in missing]
            ref = Ref(id=ancestors[here[0]]) if here else None
        return Conversation(tuple(reversed(sent)), tuple(reversed(missing)))


def last_run(records: Sequence[SessionRecord], key: str) -> tuple[SessionRecord, ...]:
    """Of a cell's `records` those that its last run with the text `key` made; empty where there are none.

    A prompt's turn, with those that followed in the same run (a flow), and the undo that made room for it, if there was one;
    or what a command did.
    """
    begun = max((n for n, record in enumerate(records) if record.key == key), default=None)
    if begun is None:
        return ()
    first = records[begun]
    if not isinstance(first, TurnRecord):
        return (first,)
    followed = enumerate(records[begun + 1 :], 1)
    rest = [record for _, record in takewhile(lambda each: each[1].key == following_key(key, each[0]), followed)]
    before = records[begun - 1] if begun else None
    made_room = isinstance(before, UndoRecord) and before.key == key and before.seq == first.seq - 1
    return (*((before,) if before is not None and made_room else ()), first, *rest)


def cut_before(turn: TurnRecord, step: int) -> TurnRecord:
    """`turn` without `step` and what came after it; END: as it is."""
    return turn if step == END else turn.model_copy(update={"steps": turn.steps[: step - 1], "dmail": None})


def in_order(records: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """By `seq`, each id once."""
    return tuple(sorted({record.id: record for record in records}.values(), key=lambda record: record.seq))


def label(record: SessionRecord) -> str:
    """What a person calls it: `turn 3`, or what it did."""
    return f"turn {record.turn}" if isinstance(record, TurnRecord) else record.type


def turns_of(records: Iterable[SessionRecord]) -> Iterator[TurnRecord]:
    return (record for record in records if isinstance(record, TurnRecord))
