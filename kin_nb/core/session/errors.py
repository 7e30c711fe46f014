"""Errors of stored sessions. Each text names the session and what the user can do."""

from __future__ import annotations

from pathlib import Path


class SessionError(Exception):
    """A stored session cannot be used."""


class SessionNotFoundError(SessionError):
    """No stored session has that name."""


class AmbiguousSessionError(SessionError):
    """The name begins the ids of several sessions."""


class SessionInUseError(SessionError):
    """Another agent has the session's log open."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"Session {session_id} is open elsewhere: in another kernel or terminal.\n"
            "  Close it there first, or continue a copy of it as a new session."
        )


class SessionContinuedElsewhereError(SessionError):
    """The session's log holds lines that this agent neither wrote nor read: another agent continued the session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        name = session_id[:8]
        super().__init__(
            f"Session {session_id} was continued elsewhere: its log has turns that this conversation does not have.\n"
            f"  Nothing was sent or changed. To continue after those turns: /resume {name}, or kin-nb run --resume {name}."
        )


class UnreadableSessionError(SessionError):
    """The log is damaged, or a later version wrote it."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        super().__init__(f"{path}: {what}. The other sessions are not affected.")


class EncryptedSessionError(SessionError):
    """The key of an encrypted session is missing, wrong or not usable."""


class SessionDataError(SessionError):
    """A document is not a valid saved session. The text names the invalid field."""


class LogRecordError(ValueError):
    """A log line is not valid in this version. The text names its number and its type."""
