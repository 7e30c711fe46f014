"""Notebook: its sessions by name, and what they share: settings, what may be spent, the answers that are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kin_nb.notebook.live_agent import LiveAgent
from kin_nb.notebook.recorded_answers import RecordedAnswers
from kin_nb.notebook.session import NotebookSession

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.notebook_file import NotebookFileWatch
    from kin_nb.notebook.output_backup import OutputBackup


class MagicSettings(Protocol):
    """The current settings of `c.KinMagics`. `max_price`: limit in USD for all sessions together."""

    mode: str | None
    model: str | None
    max_price: float | None


class NotebookSessions:
    """The sessions of a notebook. Created with the first prompt or command; `close` ends all threads."""

    def __init__(
        self, shell: InteractiveShell, settings: MagicSettings, since_written: NotebookFileWatch, backup: OutputBackup
    ) -> None:
        self._shell, self._settings, self._since_written = shell, settings, since_written
        self._recorded = RecordedAnswers(shell, backup)
        self._sessions: dict[str, NotebookSession] = {}

    @property
    def max_price(self) -> float | None:
        return self._settings.max_price

    def session(self, name: str = "") -> NotebookSession:
        """Return the session of that name, which its first use creates. The notebook's own has no name."""
        if name not in self._sessions:
            live = LiveAgent(self._shell, self._settings.model, self._settings.mode)
            self._sessions[name] = NotebookSession(self._recorded, self._since_written, self, live, name, self.play)
        return self._sessions[name]

    def spent_by_others(self, live: LiveAgent) -> float:
        """Return the cost so far of the other sessions, in USD."""
        others = [each.live.agent_or_none for each in self._sessions.values() if each.live is not live]
        return sum(agent.stats.total_cost for agent in others if agent is not None)

    def play(self, name: str, source: Path | None, body: str | None, *, scratch: bool) -> None:
        """Handle `%kin replay NAME`: all sessions play; live ones stay in their logs. Arguments as RecordedAnswers.play."""
        for session in self._sessions.values():
            session.reset()
        self._recorded.play(name, source, body, scratch=scratch)

    def close(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].reset()
        self._recorded.goes_live()
