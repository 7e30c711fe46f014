"""A new agent that goes on where a recording ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kin_nb.core.beginning import begin_anew
from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.session.lineage import with_ids
from kin_nb.core.session.records import TOOK
from kin_nb.core.time_travel import UndoError
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.carrying import AFTER, UNDONE
from kin_nb.replay.recording import Recording

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


def go_on(
    agent: Agent,
    recording: Recording,
    undone: int = 0,
    after: Sequence[str] = (),
    *,
    last: int = 0,
    cleared: bool = False,
) -> None:
    """Also where that is before turns that were undone. `last`, `undone`: the numbers of the last turn and the last undo, where
    `recording` has not all.

    `after`: the sessions that it went on from itself, the nearest first. `cleared`: with a new conversation. Raises ReplayError.

    The commit is the recording's: at that one the files are what its first turn found. The header says what it goes on from.
    """
    agent.header = {**agent.header, AFTER: [*dict.fromkeys((recording.session, *after))]}
    if recording.turns:
        agent.header["commit"] = recording.meta.workspace.commit
    last = max(last, recording.turns[-1].turn if recording.turns else 0)
    agent.header[TOOK] = [last, max(undone, len(recording.undos))]
    if undone > len(recording.undos):
        agent.header[UNDONE] = undone - len(recording.undos)
    try:
        agent.continue_from(with_ids(recording.turns, recording.session))
        for undo in recording.undos:
            agent.log.append("undo", record=undo.model_dump(mode="json"))
        agent.time.take_up(recording.undos)
        if cleared:
            begin_anew(agent)
    except (NoSuchCheckpointError, UndoError) as error:
        raise ReplayError(f"The session cannot go on where this recording ends: {error}") from None
