"""What an output carries besides what it shows: the record, for notebooks that only a front end ever saves."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from kin_nb.core.context.checkpoints import branch
from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.notebook.own_file import surroundings
from kin_nb.replay.format.carrying import AFTER, UNDONE, sessions_before
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.recording import SessionMeta

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent


def carried_by(shell: InteractiveShell, agent: Agent, record: TurnRecord | UndoRecord) -> dict[str, Any]:
    """Metadata for the last output of a turn, or for the card of the last undo."""
    meta = SessionMeta.of_session(agent.header, notebook_folder(shell))
    after = sessions_before(agent.header.get(AFTER))
    if isinstance(record, TurnRecord):
        turns = agent.turns[: bisect_right(agent.turns, record.turn, key=lambda turn: turn.turn)]
        return carried(record, meta, branch(turns, None), after=after)
    # outputs may lack turns: there an undo comes after a number, not a count
    record = record.model_copy(update={"at": agent.turns[-1].turn})
    return carried(record, meta, agent.time.active, len(agent.undone) + int(agent.header.get(UNDONE, 0)), after)


def notebook_folder(shell: InteractiveShell) -> Path:
    """That of the notebook's file, where it is known; absolute."""
    here = surroundings(shell)
    own = next(here.own_files(), None)
    return (own.parent if own is not None else here.cwd).resolve()
