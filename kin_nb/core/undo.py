"""Undo and redo of turns: the conversation and the files change together.

Undone turns stay in the session and its log; the next record names its parent. A file that was changed since is left as
it is, and reported. The statistics keep the tokens and the cost of undone turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.conversation import Conversation, Snapshot
from kin_nb.core.file_history import Begin, Restored
from kin_nb.core.records import BEFORE_PROMPT, FileChange, KeptFile, Ref, TurnRecord, UndoRecord
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.lineage import turns_on_path
from kin_nb.core.tools.builtins.text_file import SeenFiles
from kin_nb.core.tools.file_tracker import FileTracker
from kin_nb.core.turn_hooks import TurnHooks


class UndoError(Exception):
    """Nothing could be undone or redone, and nothing was changed. One line: why, or what to do."""


NOTHING_TO_UNDO = "There is nothing to undo: no turn has run in this conversation."
NOTHING_TO_REDO = "There is nothing to redo: nothing was undone since the last prompt."

_LOST = "not covered: changes in or after turn {turn} that are not in the session log, because it could not be written"

_BEFORE_CLEAR = "{turns} came before the last clear, so the conversation from before the clear continues"

_LOST_TURNS = "The session log could not be written, so the turns that are missing in it cannot be undone."


class UndoManager:
    """Undo and redo of a conversation's turns, and what can be redone.

    `pending_restore`: file changes, with real paths, of an undo that was interrupted: the next undo completes it and
    records them. `interrupted_warnings`: the warning about that, and its replacement once a prompt has followed.
    `lost_after`: turns in or after which records are missing, because the log could not be written.
    """

    def __init__(
        self,
        conversation: Conversation,
        files: FileTracker,
        journal: SessionJournal,
        turn_hooks: TurnHooks,
        *,
        seen: Callable[[], SeenFiles | None],
    ) -> None:
        self._conversation, self._files, self._journal, self._hooks = conversation, files, journal, turn_hooks
        self._seen = seen
        self.pending_restore: tuple[FileChange, ...] = ()
        self.interrupted_warnings = ("", "")
        self.lost_after: frozenset[int] = frozenset()
        self._redo: list[tuple[Snapshot, UndoRecord, Collection[Path]]] = []
        """For each undo: the conversation before it, its record, and the files that the model knew before it."""
        self._warnings_before = 0
        """Number of the session's warnings before this undo."""

    def begin_turn(self) -> None:
        """Start a turn: earlier undos can no longer be redone."""
        self._redo.clear()
        if self.pending_restore:
            warnings, (before, after) = self._journal.warnings, self.interrupted_warnings
            warnings[:] = [after if text == before else text for text in warnings]
        self.pending_restore = ()

    @property
    def active(self) -> list[TurnRecord]:
        """The turns on the path to the head, oldest first: without undone turns, with those before a clear."""
        return turns_on_path(self._conversation.lineage.path(), self._conversation.transcript.turns)

    @property
    def conversation(self) -> list[TurnRecord]:
        """The turns of the current conversation, oldest first, also those that were compacted."""
        return turns_on_path(self._conversation.lineage.conversation(), self._conversation.transcript.turns)

    async def undo(self, turns: int = 1, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Undo the last `turns` turns, or all if there are fewer. `key`, `cell_id`: the cell that asked. Raises UndoError."""
        active = self.active
        if not active:
            lost = f" {_LOST_TURNS}" if 0 in self.lost_after else ""
            raise UndoError(f"{NOTHING_TO_UNDO}{lost}")
        if turns < 1:
            raise UndoError(f"The number of turns to undo must be 1 or more, got {turns}.")
        first = active[-min(turns, len(active))]
        return await self._whole(self._back_to(Ref(id=first.id, step=BEFORE_PROMPT), key, cell_id))

    async def revert_to(self, checkpoint_id: int) -> UndoRecord:
        """Restore the conversation and the files to a checkpoint. Raises UndoError."""
        try:
            place = self._conversation.checkpoints.by_id(checkpoint_id).place
        except NoSuchCheckpointError as error:
            raise UndoError(str(error)) from None
        if place.id not in {turn.id for turn in self.active}:
            raise UndoError(f"Checkpoint {checkpoint_id} belongs to a turn that was undone. Redo it first: /redo")
        return await self._whole(self._back_to(place, "", None))

    async def redo(self, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Restore what the last undo reverted. Arguments as in `undo`. Raises UndoError."""
        if self.pending_restore:
            raise UndoError(
                "The last undo was interrupted. Run /undo again to finish it; /redo then restores everything."
            )
        if not self._redo:
            raise UndoError(NOTHING_TO_REDO)
        return await self._whole(self._forth(key, cell_id))

    async def _forth(self, key: str, cell_id: str | None) -> UndoRecord:
        (tip, undone, known), before = self._redo[-1], self._conversation.lineage.head
        restored, _ = await self._restore_files(undone.files, known)
        self._redo.pop()
        self._conversation.restore(tip)
        kept = tuple(KeptFile(path=path, why=why) for path, why in restored.kept)
        record = UndoRecord(
            type="redo",
            key=key,
            cell_id=cell_id,
            turn_ids=undone.turn_ids,
            turns=undone.turns,
            files=restored.files,
            kept=kept,
        )
        return self._recorded(record, before)

    def replay_record(self, record: UndoRecord) -> None:
        """Apply a stored undo or redo to the conversation, without the files. Raises UndoError."""
        conversation = self._conversation
        self._conversation.transcript.add(record)
        if record.type == "undo":
            self._redo.append((conversation.snapshot(), record, ()))
            conversation.restore(self._at(_goal(record)))
        else:
            tip = self._redo.pop()[0] if self._redo else None
            if tip is None or tip.position[0] != record.head:  # the log lacks the undo before it
                tip = self._at(record.head or Ref(id=record.turn_ids[0], step=BEFORE_PROMPT))
            conversation.restore(tip)
        conversation.lineage.see([record])

    def go_back(self, head: Ref) -> None:
        """Restore the conversation to `head`, a checkpoint of the last turn. Files stay as they are. Raises UndoError."""
        self._conversation.restore(self._at(head))

    def check_between_turns(self) -> None:
        """Raise TurnRunningError while a turn runs, and SessionError when another process has the session's log."""
        self._conversation.check_idle()
        self._journal.log.check()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Block turns, undo, clear and compaction meanwhile. Raises what `check_between_turns` raises."""
        self.check_between_turns()
        with self._conversation.exclusive():
            yield

    async def _whole(self, travel: Coroutine[Any, Any, UndoRecord]) -> UndoRecord:
        """Run an undo to its end, also when the caller is cancelled; CancelledError is raised after it."""
        with closing(travel), self.exclusive():
            self._warnings_before = len(self._journal.warnings)
            task = asyncio.create_task(travel)
            cancelled: asyncio.CancelledError | None = None
            while not task.done():
                try:
                    await asyncio.shield(task)
                except asyncio.CancelledError as error:
                    cancelled = error
            if cancelled is not None:
                raise cancelled
            return task.result()

    async def _back_to(self, place: Ref, key: str, cell_id: str | None) -> UndoRecord:
        """Undo to `place`: before the prompt or a step of an active turn."""
        goal = self._at(place)
        active = self.active
        first = next(n for n, turn in enumerate(active) if turn.id == place.id)
        undone = active[first:]
        left = max(place.step - 1, 0)
        calls = [call for step in undone[0].steps[left:] for call in step.calls]
        calls += [call for turn in undone[1:] for call in turn.calls]
        turns = tuple(turn.turn for turn in undone)
        before_clear = self._before_clear(undone)
        tip, earlier = self._conversation.snapshot(), await asyncio.to_thread(self._files.made, self.pending_restore)
        changes = [change for call in calls for change in call.files]
        restored, known = await self._restore_files(changes, (), partial(self._begin, turns))
        self.pending_restore = ()
        self._conversation.restore(goal)
        record = UndoRecord(
            key=key,
            cell_id=cell_id,
            turn_ids=tuple(turn.id for turn in undone),
            turns=turns,
            files=tuple(sorted(dict.fromkeys((*earlier, *restored.files)), key=lambda change: change.path)),
            kept=tuple(KeptFile(path=path, why=why) for path, why in restored.kept),
            uncovered=tuple(dict.fromkeys([*filter(None, (c.not_covered for c in calls)), *self._lost(turns)])),
            warnings=before_clear,
        )
        record = self._recorded(record, tip.position[0])
        self._redo.append((tip, record, known))
        return record

    async def _restore_files(
        self, changes: Sequence[FileChange], known: Collection[Path], begin: Begin | None = None
    ) -> tuple[Restored, Collection[Path]]:
        """Undo recorded changes. Return the result, and the files that the model knew before it: it knows them afterwards too.

        `known`: more files that it knows afterwards.
        """
        seen = self._seen()
        before = seen.unchanged() if seen is not None else frozenset()
        restored = await self._files.undo(self._here(changes), begin)
        if seen is not None:
            seen.note_restored(self._files.paths(restored.files), before.union(known))
        return restored, before

    def _before_clear(self, undone: Sequence[TurnRecord]) -> tuple[str, ...]:
        """Return a sentence about those of `undone` that are not in the current conversation."""
        current = {turn.id for turn in self.conversation}
        numbers = [str(turn.turn) for turn in undone if turn.id not in current]
        turns = f"turn{'' if len(numbers) == 1 else 's'} {', '.join(numbers)}"
        return (_BEFORE_CLEAR.format(turns=turns),) if numbers else ()

    def _lost(self, turns: Sequence[int]) -> list[str]:
        """Return a sentence for each of these turns whose records are incomplete."""
        return [_LOST.format(turn=turn) for turn in turns if turn in self.lost_after]

    def _begin(self, turns: tuple[int, ...], files: tuple[FileChange, ...]) -> None:
        """Log the planned changes before the first file is written, so that an interrupted undo can be finished and redone."""
        self.pending_restore += files
        dumps = [change.model_dump(mode="json") for change in self._redacted(files)]
        self._journal.log.append("undoing", turns=turns, files=dumps)

    def _at(self, place: Ref) -> Snapshot:
        """Raises UndoError."""
        try:
            return self._conversation.snapshot_at(place)
        except NoSuchCheckpointError as error:
            raise UndoError(str(error)) from None

    def _recorded(self, record: UndoRecord, parent: Ref | None) -> UndoRecord:
        """Complete and log the record of an undo. `parent`: the head before it."""
        kept = tuple(file.model_copy(update={"path": self._journal.redact(file.path)}) for file in record.kept)
        files = self._redacted(record.files)
        hooks = self._hooks
        hooks.start(self._journal.warnings.append)
        said = (*record.warnings, *hooks.end(files, self._journal.redact))
        lineage = self._conversation.lineage
        made = {**lineage.next(), "parent": parent, "head": lineage.head}
        record = record.model_copy(update={**made, "files": files, "kept": kept, "warnings": said})
        self._journal.log.append("undo", record=record.model_dump(mode="json"))
        self._journal.log.sync()
        failures = self._journal.warnings[self._warnings_before :]
        record = record.model_copy(update={"warnings": (*said, *map(self._journal.redact, failures))})
        self._conversation.transcript.add(record)
        lineage.see([record])
        return record

    def _redacted(self, files: Sequence[FileChange]) -> tuple[FileChange, ...]:
        return tuple(change.redacted(self._journal.redact) for change in files)

    def _here(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Return recorded changes with this machine's paths: redaction has removed secrets and the home folder."""
        return self._files.real_names(changes, self._journal.redact)


def _goal(undo: UndoRecord) -> Ref:
    """Return the checkpoint that `undo` went back to."""
    first = undo.turn_ids[0]
    return undo.head if undo.head is not None and undo.head.id == first else Ref(id=first, step=BEFORE_PROMPT)
