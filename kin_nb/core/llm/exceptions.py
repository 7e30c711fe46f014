"""The errors under the name that seed 003 gives their module; they live in errors.py."""

from __future__ import annotations

from kin_nb.core.llm.errors import (
    AuthenticationError,
    BackendError,
    BackendErrorBuilder,
    ContextTooLongError,
    IncompleteReplyError,
    RateLimitError,
    RefusedError,
    ServerUnreachableError,
    UnknownModelError,
)

__all__ = [
    "AuthenticationError",
    "BackendError",
    "BackendErrorBuilder",
    "ContextTooLongError",
    "IncompleteReplyError",
    "RateLimitError",
    "RefusedError",
    "ServerUnreachableError",
    "UnknownModelError",
]
