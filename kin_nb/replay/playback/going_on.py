"""A new agent that goes on where a notebook's conversation is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.session.records import (
    END,
    CompactRecord,
    Place,
    RecordedCompaction,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.core.time_travel import UndoError
from kin_nb.replay.book import Book, Conversation
from kin_nb.replay.errors import ReplayError

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


def go_on(agent: Agent, book: Book, at: SessionRecord | None) -> Conversation:
    """`agent`, which is new, goes on after the record `at`; the conversation that it has then. Raises ReplayError.

    The commit is the recording's: at that one the files are what its first turn found. New turns are numbered after all
    that the notebook holds.
    """
    found = book.conversation(at)
    if book.records:
        agent.header = {**agent.header, "commit": book.meta.workspace.commit}
    last = max((number for record in book.records.values() for number in _numbers(record)), default=0)
    try:
        agent.go_on_from(_in_line(found), found.turns, last, book.records.values())
        last_sent = found.sent[-1] if found.sent else None
        place = last_sent.parent if isinstance(last_sent, CompactRecord) else at.head if at is not None else None
        if place is not None and place.step > 0 and found.turns and found.turns[-1].id == place.id:
            agent.time.go_back(place)
        if isinstance(last_sent, CompactRecord):
            agent.take_up_compaction(last_sent)
    except (NoSuchCheckpointError, UndoError) as error:
        raise ReplayError(f"The session cannot go on where this notebook ends: {error}") from None
    return found


def _numbers(record: SessionRecord) -> Sequence[int]:
    """Of turns that a record is or tells of: their cells may be gone."""
    if isinstance(record, TurnRecord):
        return (record.turn,)
    return record.turns if isinstance(record, UndoRecord) else ()


def _in_line(found: Conversation) -> Sequence[TurnRecord]:
    """The turns one after another, each going on from the one before it, or from within it, whatever else the session had."""
    turns: list[TurnRecord] = []
    compaction: RecordedCompaction | None = None
    origin: Place | None = None
    for record in found.whole:
        before = record.parent
        if turns and before is not None and before.id == turns[-1].id and before.step != END:
            origin = Place(turn=turns[-1].turn, step=before.step)
        if isinstance(record, CompactRecord):
            compaction = record.compaction
            continue
        number = max(record.turn, turns[-1].turn + 1 if turns else 1)
        update = {"turn": number, "origin": origin, "fresh": False, "compaction": record.compaction or compaction}
        turns.append(record.model_copy(update=update))
        compaction, origin = None, None
    return turns
