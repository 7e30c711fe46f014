"""A new agent that goes on where a notebook's conversation is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.session.records import CompactRecord, RecordedCompaction, SessionRecord, TurnRecord
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
    turns = [record for record in book.records.values() if isinstance(record, TurnRecord)]
    last = max((turn.turn for turn in turns), default=0)
    try:
        agent.go_on_from(_in_line(found), found.turns, last, book.records.values())
        if found.sent and isinstance(found.sent[-1], CompactRecord):
            agent.take_up_compaction(found.sent[-1])
        elif at is not None and at.head is not None and found.turns and at.head.step > 0:
            agent.time.go_back(at.head)
    except (NoSuchCheckpointError, UndoError) as error:
        raise ReplayError(f"The session cannot go on where this notebook ends: {error}") from None
    return found


def _in_line(found: Conversation) -> Sequence[TurnRecord]:
    """The turns one after another, each going on from the one before it, whatever else the session had."""
    turns: list[TurnRecord] = []
    compaction: RecordedCompaction | None = None
    for record in found.whole:
        if isinstance(record, CompactRecord):
            compaction = record.compaction
            continue
        number = max(record.turn, turns[-1].turn + 1 if turns else 1)
        update = {"turn": number, "origin": None, "fresh": False, "compaction": record.compaction or compaction}
        turns.append(record.model_copy(update=update))
        compaction = None
    return turns
