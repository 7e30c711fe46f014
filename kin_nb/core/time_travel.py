"""Undo and redo: the conversation and the files go back together, and forth again.

The turns that are taken back stay in the session and its log; what comes next says where it goes on from. A file that
somebody has changed since is left alone and named. Prompts and replies cannot be unpaid: the statistics go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kin_nb.core import onlookers
from kin_nb.core.accounting import drop
from kin_nb.core.beginning import set_fresh
from kin_nb.core.context.checkpoints import Checkpoint, Checkpoints, NoSuchCheckpointError, branch, end_of
from kin_nb.core.context.state import HistoryState
from kin_nb.core.session.lineage import Lineage, identified, ref_to
from kin_nb.core.session.records import (
    END,
    ClearRecord,
    CompactRecord,
    FileChange,
    KeptFile,
    Place,
    RecordedCompaction,
    Ref,
    TurnRecord,
    UndoRecord,
)

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


class TurnRunningError(RuntimeError):
    """A turn was begun, or undone, while another one runs, or a compaction: an agent has one conversation."""

    def __init__(self) -> None:
        super().__init__("The turn before, or a compaction, is still ending. Try again in a moment.")


class UndoError(Exception):
    """It cannot be undone or redone; nothing was changed. One line: why, or what to do."""


NOTHING_TO_UNDO = "There is nothing to undo: no turn has run in this conversation."
NOTHING_TO_REDO = "There is nothing to redo: nothing was undone since the last prompt."

_LOST = "not covered: changes in or after turn {turn} that the session log lacks, because it could not be written"

_LOST_TURNS = "The session log could not be written then, so what was done in it cannot be restored."


@dataclass(frozen=True)
class _Tip:
    """Where the conversation stood, with what no turn holds yet: a clear, a compaction. `tokens`: its size, as counted."""

    place: Place
    head: Ref | None
    state: HistoryState
    tokens: int
    fresh: bool = False
    compaction: RecordedCompaction | None = None


@dataclass
class TimeTravel:
    """An agent's checkpoints, where its conversation stands, and what can be redone.

    `origin`: where the next turn goes on from; None when that is the end of the last one. `put_back`: what undos began to
    put back, with whole names, that were cut off: the next undo finishes that, and counts it as its own. `cut_off`: the warning
    about it, and the one that is true once a prompt came between. `lost_after`: turns
    with or after which records are missing, because the log could not be written.
    """

    agent: Agent
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    origin: Place | None = None
    put_back: tuple[FileChange, ...] = ()
    cut_off: tuple[str, str] = ("", "")
    lost_after: frozenset[int] = frozenset()
    lineage: Lineage = field(default_factory=Lineage)
    _redo: list[tuple[_Tip, UndoRecord]] = field(default_factory=list)
    _warnings_before: int = 0
    """How many warnings of the session are not this undo's."""

    def mark(self, step: int) -> Checkpoint:
        """Before the prompt (0) or a step of the last turn, or after all of it (END)."""
        agent = self.agent
        place = Place(turn=agent.turns[-1].turn, step=step)
        return self.checkpoints.mark(place, agent.history.state(), agent.stats.context_tokens)

    def begin_turn(self) -> Place | None:
        """The origin of the turn that begins now. What was undone before it cannot be redone any more."""
        origin, self.origin = self.origin, None
        self._redo.clear()
        if self.put_back:
            warnings, (before, after) = self.agent.journal.warnings, self.cut_off
            warnings[:] = [after if text == before else text for text in warnings]
        self.put_back = ()
        return origin

    @property
    def active(self) -> list[TurnRecord]:
        """The turns of the conversation as it stands: without those that were undone."""
        return branch(self.agent.turns, self.origin)

    async def undo(self, turns: int = 1, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Take back the last `turns` turns, or all that there are. `key`, `cell_id`: which cell asked. Raises UndoError."""
        active = self.active
        if not active:
            lost = f" {_LOST_TURNS}" if 0 in self.lost_after else ""
            raise UndoError(f"{NOTHING_TO_UNDO}{lost}")
        if turns < 1:
            raise UndoError(f"{turns} turns cannot be undone. Say how many, from 1 on.")
        return await self._whole(self._back_to(Place(turn=active[-min(turns, len(active))].turn), key, cell_id))

    async def revert_to(self, checkpoint_id: int) -> UndoRecord:
        """Back to a checkpoint of the conversation as it stands, files included. Raises UndoError."""
        try:
            place = self.checkpoints.by_id(checkpoint_id).place
        except NoSuchCheckpointError as error:
            raise UndoError(str(error)) from None
        if place.turn not in {turn.turn for turn in self.active}:
            raise UndoError(f"Checkpoint {checkpoint_id} lies in a turn that was undone.")
        return await self._whole(self._back_to(place, "", None))

    async def redo(self, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Give back what the last undo took; the arguments as in `undo`. Raises UndoError."""
        if self.put_back:
            raise UndoError("An undo was cut off. Finish it first: /undo. Then /redo gives back all that it took.")
        if not self._redo:
            raise UndoError(NOTHING_TO_REDO)
        return await self._whole(self._forth(key, cell_id))

    async def _forth(self, key: str, cell_id: str | None) -> UndoRecord:
        tip, undone = self._redo[-1]
        restored = await self.agent.files.undo(self._here(undone.files))
        self._redo.pop()
        self._stand_at(tip)
        kept = tuple(KeptFile(path=path, why=why) for path, why in restored.kept)
        record = UndoRecord(
            type="redo",
            key=key,
            cell_id=cell_id,
            at=undone.at,
            turns=undone.turns,
            to=tip.place,
            files=restored.files,
            kept=kept,
        )
        return self._recorded(record, tip.head)

    def take_up(self, undone: Sequence[UndoRecord]) -> None:
        """Of a stored session: what was undone and redone, oldest first. What came before its last turn, the turn holds.

        Raises UndoError.
        """
        for each in undone:
            record = identified(each, self.agent.turns, self.lineage)
            if all(move.id != record.id for move in self.agent.moves):
                self.agent.moves.append(record)
            self.lineage.know([record])
            if record.at < len(self.agent.turns):
                continue
            self.lineage.head = record.parent
            if record.type == "undo":
                self._redo.append((self._tip, record))
                self._stand_at(self._tip_at(record.to))
            else:  # a tip knows what no turn holds; it is another one where an undo in between is not known
                tip = self._redo.pop()[0] if self._redo else None
                self._stand_at(tip if tip is not None and tip.place == record.to else self._tip_at(record.to))
            self.lineage.take(record)

    def go_back(self, head: Ref) -> None:
        """To a place in the last turn, without its files: they are as they are. Raises UndoError."""
        turn = next(each for each in reversed(self.agent.turns) if each.id == head.id)
        self._stand_at(self._tip_at(Place(turn=turn.turn, step=head.step)))
        self.lineage.head = head

    def cleared(self, key: str = "", cell_id: str | None = None) -> ClearRecord:
        """The record of a new conversation that begins now."""
        made = self.lineage.next()
        del made["ancestors"]
        record = ClearRecord(**made, key=key, cell_id=cell_id)
        self.moved(record)
        return record

    def compacted(self, compaction: RecordedCompaction, key: str = "", cell_id: str | None = None) -> CompactRecord:
        """The record of a compaction that was asked for between turns."""
        record = CompactRecord(**self.lineage.next(), compaction=compaction, key=key, cell_id=cell_id)
        self.moved(record)
        return record

    def moved(self, record: ClearRecord | CompactRecord) -> None:
        self.agent.moves.append(record)
        self.lineage.take(record)

    @property
    def _tip(self) -> _Tip:
        agent = self.agent
        place = self.origin or Place(turn=agent.turns[-1].turn, step=END)
        return _Tip(
            place,
            self.lineage.head,
            agent.history.state(),
            agent.stats.context_tokens,
            agent.fresh,
            agent.compaction,
        )

    def check_between_turns(self) -> None:
        """Raises TurnRunningError while a turn has not ended, and SessionError when somebody else has the session's log."""
        if self.agent.busy:
            raise TurnRunningError
        self.agent.log.check()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No turn begins meanwhile, and nothing is undone, cleared or compacted. Raises as `check_between_turns`."""
        self.check_between_turns()
        self.agent.busy = True
        try:
            yield
        finally:
            self.agent.busy = False

    async def _whole(self, travel: Coroutine[Any, Any, UndoRecord]) -> UndoRecord:
        """Files, conversation and record together, also when whoever waits is cancelled; no turn begins meanwhile."""
        with closing(travel), self.alone():
            self._warnings_before = len(self.agent.journal.warnings)
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

    async def _back_to(self, place: Place, key: str, cell_id: str | None) -> UndoRecord:
        agent = self.agent
        goal = self._tip_at(place)
        before = self.active
        left = {turn.turn: len(turn.steps) for turn in branch(agent.turns, place)}
        calls = [call for turn in before for step in turn.steps[left.get(turn.turn, 0) :] for call in step.calls]
        turns = tuple(turn.turn for turn in before if left.get(turn.turn, -1) < len(turn.steps))
        tip, earlier = self._tip, await asyncio.to_thread(agent.files.made, self.put_back)
        restored = await agent.files.undo(
            self._here([change for call in calls for change in call.files]), partial(self._begin, turns)
        )
        self.put_back = ()
        self._stand_at(goal)
        record = UndoRecord(
            key=key,
            cell_id=cell_id,
            at=len(agent.turns),
            turns=turns,
            to=place,
            files=tuple(sorted(dict.fromkeys((*earlier, *restored.files)), key=lambda change: change.path)),
            kept=tuple(KeptFile(path=path, why=why) for path, why in restored.kept),
            uncovered=tuple(dict.fromkeys([*filter(None, (c.not_covered for c in calls)), *self._lost(turns)])),
        )
        record = self._recorded(record, goal.head)
        self._redo.append((tip, record))
        return record

    def _lost(self, turns: Sequence[int]) -> list[str]:
        """What undo of these turns cannot restore because no record tells of it, a sentence each."""
        return [_LOST.format(turn=turn) for turn in turns if turn in self.lost_after]

    def _begin(self, turns: tuple[int, ...], files: tuple[FileChange, ...]) -> None:
        """In the log before the first file is touched: an undo that is cut off can be finished, and redone as a whole."""
        self.put_back += files
        dumps = [change.model_dump(mode="json") for change in self._redacted(files)]
        self.agent.log.append("undoing", turns=turns, files=dumps)

    def _tip_at(self, place: Place) -> _Tip:
        try:
            mark = self.checkpoints.at(place)
            return _Tip(place, ref_to(place, self.agent.turns, self.lineage), mark.state, mark.tokens)
        except NoSuchCheckpointError as error:
            raise UndoError(str(error)) from None

    def _stand_at(self, tip: _Tip) -> None:
        agent = self.agent
        agent.history.restore(tip.state)
        self.origin = None if tip.place == end_of(agent.turns) else tip.place
        drop(agent.dropped, agent.compaction)
        if tip.compaction in agent.dropped:  # it was undone, and is given back
            agent.dropped.remove(tip.compaction)
        agent.compaction = tip.compaction
        set_fresh(agent, fresh=tip.fresh)
        agent.injected.clear()
        agent.reminders.clear()
        agent.stats.context_tokens = tip.tokens

    def _recorded(self, record: UndoRecord, head: Ref | None) -> UndoRecord:
        """`head`: where the conversation is now."""
        kept = tuple(file.model_copy(update={"path": self.agent.redact(file.path)}) for file in record.kept)
        files = self._redacted(record.files)
        onlookers.begins(self.agent)
        said = tuple(onlookers.remarks(self.agent, files))
        made = {**self.lineage.next(head), "head": head}
        record = record.model_copy(update={**made, "files": files, "kept": kept, "warnings": said})
        self.agent.log.append("undo", record=record.model_dump(mode="json"))
        self.agent.log.sync()
        failures = self.agent.journal.warnings[self._warnings_before :]
        record = record.model_copy(update={"warnings": (*said, *map(self.agent.redact, failures))})
        self.agent.moves.append(record)
        self.lineage.take(record)
        return record

    def _redacted(self, files: Sequence[FileChange]) -> tuple[FileChange, ...]:
        redact = self.agent.redact
        return tuple(
            change.model_copy(update={"path": redact(change.path), "patch": change.patch and redact(change.patch)})
            for change in files
        )

    def _here(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Recorded paths as this machine has them: redaction took secrets and the home folder out of them."""
        return self.agent.files.real_names(changes, self.agent.redact)
