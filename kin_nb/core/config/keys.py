"""API keys: where a provider's key is found. Never stored in a value, never logged."""

from __future__ import annotations

import os


def find_key(variable: str) -> str | None:
    """The key of that name, None when there is none or `variable` is empty."""
    return os.environ.get(variable) or None if variable else None
