"""What only the session log has: the notebook went on in a kernel before, and its file lost that."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kin_nb.core.session.encryption import is_encrypted
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.log import LOG_NAME
from kin_nb.core.session.records import TOOK, TurnRecord, UndoRecord
from kin_nb.core.session.store import SessionStore, StoredSession
from kin_nb.core.session.summary import SessionSummary
from kin_nb.replay.cells.matching import Undoing, turns_of_cell, undoing_fits
from kin_nb.replay.cells.placing import asked_with
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.carrying import AFTER, UNDONE, sessions_before
from kin_nb.replay.format.gone_on import Card, GoneOn
from kin_nb.replay.format.in_log import logged
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.recording import Recording


@dataclass(frozen=True)
class Logged:
    """A session of the log. `after`: those that it went on from, the nearest first. `undone`: how many undos it knows not of.

    `took`: as in its header.
    """

    recording: Recording
    after: Sequence[str]
    undone: int = 0
    took: Sequence[int] | None = None

    @classmethod
    def of(cls, stored: StoredSession, folder: Path) -> Logged:
        """For a notebook in `folder`. Raises ReplayError."""
        header = stored.header
        after = sessions_before(header.get(AFTER))
        return cls(logged(stored, folder), after, int(header.get(UNDONE, 0)), header.get(TOOK))

    def stands(self, turn: TurnRecord) -> bool:
        """Whether it did not take back its turn of that number, nor ask it again in the same cell."""
        return self._asked_last.get((turn.cell_id, turn.key)) == turn.turn

    @cached_property
    def _asked_last(self) -> dict[tuple[str | None, str], int]:
        """Of each cell and text, the last turn that stands."""
        turns = (self.recording.turns[n] for n in sorted(self.recording.standing))
        return {(turn.cell_id, turn.key): turn.turn for turn in turns}

    def following(self, recording: Recording) -> Logged:
        """As what comes after `recording`, which it may have by way of other sessions."""
        begins = recording.session == self.recording.session or not recording.turns
        return (
            self if begins or recording.session in self.after else replace(self, after=(*self.after, recording.session))
        )


def logged_sessions(
    store: SessionStore, workdir: Path, folder: Path, text: str, *, elsewhere: bool
) -> Iterator[Logged]:
    """The sessions of `workdir` whose logs hold `text`, the newest first, for a notebook in `folder`.

    Those that cannot be read are none. A long log is not parsed when it does not hold the text; encrypted ones may.
    With `elsewhere` then those of other folders: the notebook may have been copied, or its folder renamed.
    """
    here = store.list(workdir)
    yield from _that_hold(store, here, folder, text)
    if elsewhere:
        known = {summary.id for summary in here}
        others = [summary for summary in store.list() if summary.id not in known and not summary.locked]
        yield from _that_hold(store, others, folder, text)


def _that_hold(store: SessionStore, sessions: Sequence[SessionSummary], folder: Path, text: str) -> Iterator[Logged]:
    for summary in sessions:
        with suppress(SessionError, ReplayError, OSError, ValueError):
            if _may_hold(summary.folder / LOG_NAME, text):
                yield Logged.of(store.find(summary.id), folder)


def _may_hold(path: Path, text: str) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
        return is_encrypted(log.readline()) or log.find(text.encode()) >= 0


def until_answer(
    recording: Recording, session: Logged, key: str, cell_id: str, *, shown: int = 0, edited: str | None = None
) -> GoneOn | None:
    """`recording`, and after it what `session`, which went on from it, has up to the answer to this very cell.

    Of several that with turn `shown`, which its outputs show; else that which stands; one that was taken back, where none
    does. A turn that failed is no answer, unless the session went on after it: run again, it is asked again. What came later
    is left there. None where there is no answer. With `edited`, the options of the cell's `%%kin` line: the answer that
    stands to another text in it; where nothing was recorded, below that same line.
    """
    known, whole = len(recording.turns), session.recording
    if not _goes_on(whole, recording):
        return None
    found: list[tuple[bool, bool, int]] = []
    for position, turn in enumerate(whole.turns[known:], known):
        end = position + len(turns_of_cell(whole.turns, position))
        asked = turn.key == key if edited is None else position in whole.standing
        if edited is not None and not known:
            asked = asked and asked_with(turn.key, turn.prompt, edited)
        if turn.cell_id == cell_id and asked and (whole.turns[end - 1].outcome != "error" or end < len(whole.turns)):
            is_shown = turn.turn <= shown <= whole.turns[end - 1].turn
            found.append((is_shown, position in whole.standing, end))
    return _until(recording, session, max(found)[-1]) if found else None


def until_shown(recording: Recording, session: Logged, shown: GoneOn) -> GoneOn | None:
    """`recording`, and after it what `session` has until all that outputs show. None where it has not just that."""
    known, whole = len(recording.turns), session.recording
    if not _goes_on(whole, recording):
        return None
    turns = {turn.turn: position for position, turn in enumerate(whole.turns)}
    wanted = shown.recording.turns[known:]
    if any(each.turn not in turns or _asked(whole.turns[turns[each.turn]]) != _asked(each) for each in wanted):
        return None
    undone = min(max(shown.undone - session.undone, 0), len(whole.undos))
    end = max([known, *(turns[each.turn] + 1 for each in wanted), *(undo.at for undo in whole.undos[:undone])])
    undone = max(undone, sum(undo.at < end for undo in whole.undos))
    return _until(recording, session, end, undone)


def _asked(turn: TurnRecord) -> tuple[object, ...]:
    """What it is, whatever it goes on from: of outputs that is another place where some turns are gone."""
    return turn.key, turn.cell_id, turn.outcome, turn.steps


def until_undo(recording: Recording, session: Logged, asked: Undoing) -> GoneOn | None:
    """`recording`, and after it what `session` undid or redid next, where that is asked for and no turn comes between."""
    number, whole = len(recording.undos), session.recording
    if not _goes_on(whole, recording) or len(whole.undos) <= number:
        return None
    undo = whole.undos[number]
    due = undo.at == len(recording.turns) and undoing_fits(whole, number, asked)
    return _until(recording, session, undo.at, number + 1) if due else None


def _goes_on(whole: Recording, recording: Recording) -> bool:
    """Whether it begins with what was recorded; of the same session texts may have been taken out since."""
    known, undone = len(recording.turns), len(recording.undos)
    turns, undos = whole.turns[:known], whole.undos[:undone]
    if whole.session != recording.session:
        return (turns, undos) == (recording.turns, recording.undos)
    return _outline(turns, undos) == _outline(recording.turns, recording.undos)


def _outline(turns: Sequence[TurnRecord], undos: Sequence[UndoRecord]) -> list[tuple[object, ...]]:
    return [(turn.turn, turn.cell_id, turn.origin, len(turn.steps)) for turn in turns] + [
        (undo.type, undo.at, undo.turns) for undo in undos
    ]


def _until(recording: Recording, session: Logged, end: int, undone: int | None = None) -> GoneOn:
    """With the turns before position `end`, and what was undone before the last of them, or the first `undone` undos."""
    known, before, whole = len(recording.turns), len(recording.undos), session.recording
    turns = (*recording.turns, *whole.turns[known:end])
    later = (
        whole.undos[before:undone] if undone is not None else [undo for undo in whole.undos[before:] if undo.at < end]
    )
    led: dict[str, Any] = {"after": session.after, "took": session.took}
    carries = {("turn", turn.turn): carried(turn, whole.meta, turns, **led) for turn in turns[known:]}
    for number, undo in enumerate(later, before + 1):
        carries[undo.type, number] = carried(undo, whole.meta, whole.turns, number + session.undone, **led)
    undos = (*recording.undos, *later)
    found = replace(recording, session=whole.session, turns=turns, meta=whole.meta, undos=undos)
    cards = _cards(turns, later, [carries[undo.type, number] for number, undo in enumerate(later, before + 1)])
    return GoneOn(
        found, carries, after=session.after, cards=cards, undone=session.undone + len(undos), last=whole.turns[-1].turn
    )


def _cards(
    turns: Sequence[TurnRecord], undos: Sequence[UndoRecord], carries: Sequence[dict[str, Any]]
) -> dict[int, list[Card]]:
    """By turn, what its cell took back before it asked again: that began with a turn of the same cell.

    A `%kin undo` above may have done so: playback has that in its own cell.
    """
    cells = {turn.turn: turn.cell_id for turn in turns}
    cards: dict[int, list[Card]] = {}
    for undo, metadata in zip(undos, carries, strict=True):
        again = turns[undo.at] if undo.type == "undo" and undo.at < len(turns) else None
        if again is not None and again.cell_id and cells.get(undo.turns[0]) == again.cell_id:
            cards.setdefault(again.turn, []).append((undo, metadata))
    return cards
