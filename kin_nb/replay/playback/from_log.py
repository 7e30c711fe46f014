"""An answer that only the session log has: the notebook went on in a kernel before, and its file lost that."""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kin_nb.core.session.encryption import is_encrypted
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.log import LOG_NAME
from kin_nb.core.session.store import SessionStore
from kin_nb.replay.cells.matching import answer_in
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.gone_on import GoneOn
from kin_nb.replay.format.in_log import logged
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.recording import Recording
from kin_nb.replay.standing import standing_turns


def answer_in_log(
    recording: Recording, key: str, cell_id: str, store: SessionStore, workdir: Path, folder: Path
) -> GoneOn | None:
    """`recording`, and after it what the newest session of `workdir` with this very cell has, up to that cell's answer.

    A session counts that begins as `recording` does and did not take that answer back; what else it has is left there. One
    that cannot be read is none. `folder`: the notebook's.
    """
    for summary in store.list(workdir):
        with suppress(SessionError, ReplayError, OSError, ValueError):
            if _may_hold(summary.folder / LOG_NAME, cell_id):
                found = _until_answer(recording, logged(store.find(summary.id), folder), key, cell_id)
                if found is not None:
                    return found
    return None


def _may_hold(log: Path, cell_id: str) -> bool:
    """A long log is not parsed for a cell that it does not name. Encrypted ones may hold anything."""
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return is_encrypted(text.readline()) or text.find(cell_id.encode()) >= 0


def _until_answer(recording: Recording, whole: Recording, key: str, cell_id: str) -> GoneOn | None:
    known, undone = len(recording.turns), len(recording.undos)
    begins = whole.turns[:known] == recording.turns and whole.undos[:undone] == recording.undos
    answer = answer_in(standing_turns(whole.turns, whole.undos), key, cell_id)
    if not answer or not (begins or whole.session == recording.session):
        return None
    end = whole.turns.index(answer[-1]) + 1
    if end <= known:
        return None
    turns = (*recording.turns, *whole.turns[known:end])
    undos = (*recording.undos, *(undo for undo in whole.undos[undone:] if undo.at < end))
    carries = {
        ("turn", turns[n].turn): carried(turns[n], whole.meta, after=turns[n - 1] if n else None)
        for n in range(known, end)
    }
    carries |= {
        (undo.type, number): carried(undo, whole.meta, number, turns[undo.at - 1])
        for number, undo in enumerate(undos[undone:], undone + 1)
    }
    return GoneOn(replace(recording, session=whole.session, turns=turns, meta=whole.meta, undos=undos), carries)
