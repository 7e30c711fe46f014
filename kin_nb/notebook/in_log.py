"""What only the session log has of a notebook that plays: it went on in a kernel before, and its file lost that."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.records import TurnRecord
from kin_nb.core.session.store import SessionStore
from kin_nb.notebook.carried import notebook_folder
from kin_nb.notebook.errors import KinError
from kin_nb.replay.cells.matching import Undoing
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.gone_on import GoneOn
from kin_nb.replay.playback.from_log import Logged, logged_sessions, until_answer, until_shown, until_undo
from kin_nb.replay.recording import Recording

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession


class InLog:
    """Where nothing can be found, since settings do not load, nothing is: that is said where a model is asked."""

    def __init__(self) -> None:
        self._found: Logged | None = None
        """The session that something was found in."""

    def doubts(self, turn: TurnRecord) -> bool:
        """Whether the session that the notebook went on in took `turn` back, or asked it again in the same cell."""
        return self._found is not None and not self._found.stands(turn)

    def answer(
        self,
        session: KinSession,
        recording: Recording,
        key: str,
        cell_id: str,
        *,
        shown: int,
        edited: str | None = None,
    ) -> GoneOn | None:
        """`recording` until the answer to this cell, as `until_answer`."""
        with suppress(KinError):
            store, workdir, folder = _places(session)
            kept = [self._found] if self._found is not None else []
            # what recorded nothing could be anybody's notebook
            sessions = logged_sessions(store, workdir, folder, cell_id, elsewhere=bool(recording.turns))
            for each in chain(kept, sessions):
                following = each.following(recording)
                found = until_answer(recording, following, key, cell_id, shown=shown, edited=edited)
                if found is not None:
                    self._found = following
                    return found
        return None

    def all_shown(self, session: KinSession, recording: Recording, shown: GoneOn) -> GoneOn | None:
        """`recording`, and what follows it until all that outputs show, of the session that they say that they are of."""
        with suppress(KinError, SessionError, ReplayError):
            store, _, folder = _places(session)
            following = Logged.of(store.find(shown.recording.session), folder).following(recording)
            return until_shown(recording, following, shown)
        return None

    def undo(self, session: KinSession, recording: Recording, asked: Undoing, *, went_on: bool) -> GoneOn | None:
        """`recording` until what was undone next. `went_on`: it is known that the notebook did, in the recording's session."""
        with suppress(KinError, SessionError, ReplayError):
            if self._found is None and went_on:
                store, _, folder = _places(session)
                self._found = Logged.of(store.find(recording.session), folder)
            if self._found is not None:
                return until_undo(recording, self._found, asked)
        return None


def _places(session: KinSession) -> tuple[SessionStore, Path, Path]:
    """The store, and the folders of the workspace and of the notebook. Raises KinError."""
    config = session.config()
    store = SessionStore.configured(config.session_logging)
    return store, config.effective_workdir, notebook_folder(session.shell)
