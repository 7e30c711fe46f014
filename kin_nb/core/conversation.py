"""Conversation: the messages that the model gets, and the operations that change them.

| | messages | size | notes | loops and middleware |
|---|---|---|---|---|
| `clear` | only the system prompt | starts at 0 | dropped | reset, as for a new conversation |
| `compact` | a summary and the last messages | as counted | kept | reset, as after a compaction |
| `restore` (undo, redo) | as before | as before | dropped | reset, as after a compaction |
| `rewind` (D-Mail) | as before, and the D-Mail | as before | dropped | reset, as after a compaction |
| `replay` (resume) | those of the records | as recorded | none yet | in their initial state |

So a warning about the size of the context comes again when the context has become smaller and then grows again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kin_nb.core.config import KinConfig
from kin_nb.core.context.checkpoints import Checkpoint, Checkpoints, HistoryState, delivered
from kin_nb.core.context.compaction import CompactionResult
from kin_nb.core.context.context_window import estimate_tokens
from kin_nb.core.context.history import Expand, History, user_message
from kin_nb.core.middleware import ConversationContext, ResetReason
from kin_nb.core.records import (
    BEFORE_PROMPT,
    ClearRecord,
    CompactRecord,
    Moved,
    RecordedCompaction,
    Ref,
    Sent,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.core.session.lineage import Lineage
from kin_nb.core.usage import UsageTracker


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


class TurnRunningError(RuntimeError):
    """A turn was begun, or undone, while another one runs, or a compaction: an agent has one conversation."""

    def __init__(self) -> None:
        super().__init__("The turn before, or a compaction, is still ending. Try again in a moment.")


@dataclass(frozen=True)
class Snapshot:
    """A conversation at one moment. `position`: Lineage's. `tokens`: its size, as counted. `cleared`: UsageTracker's."""

    position: tuple[Ref | None, Ref | None]
    state: HistoryState
    tokens: int
    cleared: bool = False


class Conversation:
    """`transcript`: the session's records; `lineage`: its place among them. `busy`: a turn, an undo or a compaction runs.

    `forget` makes loop detection and middleware begin again.
    `notes`: what is added to the next request, and only to it; `reminders`: those of them that are shown in the turn's card.
    """

    def __init__(self, history: History, usage: UsageTracker, *, forget: Callable[[ResetReason], None]) -> None:
        self.history, self.usage, self._forget = history, usage, forget
        self.checkpoints = Checkpoints()
        self.transcript, self.lineage = Transcript(), Lineage()
        self.busy = False
        self.notes: list[str] = []
        self.reminders: list[str] = []

    def check_idle(self) -> None:
        """Raises TurnRunningError while a turn, an undo or a compaction has not ended."""
        if self.busy:
            raise TurnRunningError

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let nothing else move the conversation meanwhile. Raises TurnRunningError."""
        self.check_idle()
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    def take(self, record: SessionRecord) -> None:
        """Note a record that was made now, and move to where it leads."""
        self.transcript.add(record)
        self.lineage.add(record)

    def context(self, config: KinConfig, *, is_new: bool = True) -> ConversationContext:
        """Return what middleware, pruning and compaction look at. `is_new`: see ConversationContext."""
        uncounted = estimate_tokens(self.history.messages[self.history.counted :])
        return ConversationContext(self.history.messages, self.usage.stats, config, uncounted, is_new)

    def mark(self, turn_id: str, step: int) -> Checkpoint:
        """Mark the place before the prompt (BEFORE_PROMPT) or a step of that turn, or after all of it (END)."""
        tokens = self.usage.stats.context_tokens
        return self.checkpoints.mark(Ref(id=turn_id, step=step), self.history.state(), tokens)

    def snapshot(self) -> Snapshot:
        usage = self.usage
        return Snapshot(self.lineage.position, self.history.state(), usage.stats.context_tokens, usage.cleared)

    def snapshot_at(self, place: Ref) -> Snapshot:
        """Return the conversation as it was there. Raises NoSuchCheckpointError."""
        mark = self.checkpoints.at(place)
        position = self.lineage.position_before(place.id) if place.step == BEFORE_PROMPT else (place, None)
        return Snapshot(position, mark.state, mark.tokens)

    def clear(self) -> None:
        """Begin a new conversation: only the system prompt stays."""
        self.history.restart()
        self._drop_notes()
        self.usage.set_cleared(cleared=True)
        self._forget(ResetReason.STOP)

    def compact(self, done: CompactionResult, tokens: int, expand: Expand) -> None:
        """Put a summary in place of old messages. `tokens`: the size that this leaves."""
        self.history.compact(done.summary, done.kept, done.words, expand)
        self.usage.count_summary(done.usage, tokens)
        self._forget(ResetReason.COMPACT)

    def restore(self, snapshot: Snapshot) -> None:
        """Reset to a snapshot: messages, size, place among the records."""
        self.history.restore(snapshot.state)
        self.lineage.move_to(snapshot.position)
        self._drop_notes()
        self.usage.set_cleared(cleared=snapshot.cleared)
        self.usage.stats.context_tokens = snapshot.tokens
        self._forget(ResetReason.COMPACT)

    def rewind(self, checkpoint: Checkpoint, message: str) -> None:
        """Go back to a checkpoint of the turn that runs, with a message of the model to itself. Files stay as they are."""
        self.history.restore(checkpoint.state)
        self.history.append(user_message(delivered(message)), said=False)
        self._drop_notes()
        self.usage.stats.context_tokens = checkpoint.tokens
        self._forget(ResetReason.COMPACT)

    def replay(self, records: Sequence[SessionRecord], expand: Expand) -> None:
        """Take up recorded turns, and what came between them; the last record is a turn. Raises NoSuchCheckpointError."""
        for record in records:
            self.take(record)
        sent = [record for record in records if isinstance(record, Sent)]
        self.history.extend_from(sent, expand, self.checkpoints)
        turns = [record for record in records if isinstance(record, TurnRecord)]
        if turns:
            self.usage.stats.context_tokens = self.checkpoints.at(turns[-1].head).tokens

    def replay_move(self, record: ClearRecord | CompactRecord, expand: Expand) -> None:
        """Clear or compact again as it was recorded after the last turn."""
        if isinstance(record, ClearRecord):
            self.clear()
        else:
            self.history.take_compaction(record.compaction, expand)
            self.usage.count_compaction(record.compaction)
        self.take(record)

    def start_over(self) -> None:
        """Keep only the system prompt, and record nothing of it: for a recorded turn that runs again at the beginning."""
        self.history.restart()

    def take_compaction(self, compaction: RecordedCompaction, expand: Expand) -> None:
        """Put a recorded summary in place of old messages, and record nothing of it."""
        self.history.take_compaction(compaction, expand)

    def remind(self, text: str) -> None:
        """Add a note to the next request that is shown in the turn's card too."""
        self.notes.append(text)
        self.reminders.append(text)

    def take_notes(self) -> str:
        """Return the reminders for the card, and drop all notes: the request that had them was answered."""
        reminder = " ".join(self.reminders)
        self._drop_notes()
        return reminder

    def _drop_notes(self) -> None:
        self.notes.clear()
        self.reminders.clear()
