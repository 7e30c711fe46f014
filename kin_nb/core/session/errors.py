"""What can be wrong with a stored session, in words that say which and what to do."""

from __future__ import annotations

from pathlib import Path


class SessionError(Exception):
    """A stored session cannot be used. The text says which, and what to do."""


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
            "  Close it there first, or continue a copy of it, which becomes a session of its own."
        )


class SessionWentOnError(SessionError):
    """The session's log holds more than this agent wrote or read: another one went on with it."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        name = session_id[:8]
        super().__init__(
            f"Session {session_id} went on elsewhere: its log holds what this conversation does not know.\n"
            f"  Nothing was asked or changed. To go on after all of it: /resume {name}, or kin-nb run --resume {name}."
        )


class UnreadableSessionError(SessionError):
    """The log is damaged, or a later version wrote it."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        super().__init__(f"{path}: {what}. The other sessions are not affected.")


class EncryptedSessionError(SessionError):
    """A session is encrypted, or is to be, and its key is not there, not the right one, or not usable."""


class SessionDataError(SessionError):
    """A saved session that is none. The text says where in it the mistake is."""


class LogRecordError(ValueError):
    """A record that is none of ours. The text names its place in the log and its type."""
