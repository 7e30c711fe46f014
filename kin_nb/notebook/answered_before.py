"""A cell that plays nothing and has an answer in the log: the notebook went on in a kernel before, and its file lost that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.log import sessions_root
from kin_nb.core.session.session_keys import SessionKeys
from kin_nb.core.session.store import SessionStore
from kin_nb.notebook.answered import answer_of
from kin_nb.replay.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kin_nb.notebook.session import KinSession

_MOST_READ = 20


def go_on_with_answer(session: KinSession, recording: Recording, key: str, cell_id: str | None) -> bool:
    """Whether `session` now stands where a stored one does that went on from `recording` with this very cell.

    What running an answered cell again means is asked then as ever. Sessions that are in use or cannot be read are none.
    """
    if cell_id is None or session.begun is not None:
        return False
    config = session.config()
    try:
        config.check_api_key()
        for name in _sessions(session, recording, key, cell_id):
            agent = Agent.resume(config, name, mode=session.mode)
            if answer_of(agent, key, cell_id):  # it was not taken back since
                session.take(agent)
                return True
            session.on_agent_thread(agent.aclose)
    except (ConfigError, SessionError, OSError):
        pass  # going live says what is wrong with the settings
    return False


def _sessions(session: KinSession, recording: Recording, key: str, cell_id: str) -> Iterator[str]:
    """Of this folder, the newest first."""
    config, count = session.config(), len(recording.turns)
    settings = config.session_logging
    if not settings.enabled:
        return
    store = SessionStore(sessions_root(settings.save_dir), SessionKeys(settings))
    longer = [each for each in store.list(config.effective_workdir) if each.turns is None or each.turns > count]
    for summary in longer[:_MOST_READ]:
        turns = store.find(summary.id).turns
        asked = [(turn.key, turn.cell_id) for turn in turns[count : count + 1]]
        same = summary.id == recording.session or turns[:count] == recording.turns
        if asked == [(key, cell_id)] and same:
            yield summary.id
