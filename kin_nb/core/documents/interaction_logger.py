"""InteractionLogger (seed 003): the log of an agent's session, seen as the one JSON document that the seeds describe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from kin_nb.core.messages import LLMMessage
from kin_nb.core.session.log import SessionLog
from kin_nb.core.usage_stats import AgentStats

DOCUMENT_NAME = "session.json"


class InteractionLogger:
    """Nothing need be saved through it: the log is written line by line while the agent acts (docs/seed-differences.md)."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log

    @property
    def enabled(self) -> bool:
        """Whether the session reaches a file: `[session_logging] enabled`, and a disk that takes it."""
        return self.log.is_written

    @property
    def save_dir(self) -> Path:
        """The session's folder. It is made with the first prompt."""
        return self.log.folder

    def session_info(self, session_id: str, messages: Sequence[LLMMessage], stats: AgentStats) -> SessionInfo:
        """`session_id`: the agent's, which changes on clear and compact. `start_time` is "" before the first prompt."""
        return SessionInfo(
            session_id=session_id,
            start_time=self.log.start_time,
            message_count=len(messages),
            stats=stats,
            save_dir=str(self.save_dir) if self.enabled else "",
        )

    def save_interaction(self, path: Path | None = None) -> Path | None:
        """Write the session so far as one JSON document, by default beside its log. None when there is no log.

        Raises SessionError when the log cannot be read, OSError when the document cannot be written.
        """
        from kin_nb.core.documents.document import write_document  # noqa: PLC0415  (only who wants the document pays)

        if not self.enabled or not self.log.begun:
            return None
        return write_document(self.log.folder, path or self.log.folder / DOCUMENT_NAME)


class SessionInfo(BaseModel):
    session_id: str
    start_time: str
    message_count: int
    stats: AgentStats
    save_dir: str
