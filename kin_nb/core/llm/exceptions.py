"""The errors under the name that seed 003 gives their module; they live in errors.py, the first in core.config."""

from __future__ import annotations

from kin_nb.core.config.errors import LLMNotConfigured
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
    "LLMNotConfigured",
    "RateLimitError",
    "RefusedError",
    "ServerUnreachableError",
    "UnknownModelError",
]
