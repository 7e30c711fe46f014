"""What an output carries besides what it shows: the record, for notebooks that only a front end ever saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kin_nb.core.session.records import SessionRecord
from kin_nb.notebook.own_file import surroundings
from kin_nb.replay.format.carrying import carried
from kin_nb.replay.recording import SessionMeta

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent


def carried_by(shell: InteractiveShell, agent: Agent, record: SessionRecord) -> dict[str, Any]:
    """Metadata for the last output of a turn, or for the card of what moved the conversation."""
    return carried(record, SessionMeta.of_session(agent.header, notebook_folder(shell)))


def notebook_folder(shell: InteractiveShell) -> Path:
    """That of the notebook's file, where it is known; absolute."""
    here = surroundings(shell)
    own = next(here.own_files(), None)
    return (own.parent if own is not None else here.cwd).resolve()
