"""Names chosen by pattern: `enabled_tools`, `disabled_tools` and their like (seed 000)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether any pattern names `name`: a glob, or a regular expression after `re:` that fits the whole name.

    Upper and lower case are the same. A pattern that is no regular expression matches nothing.
    """
    return any(_match(name.casefold(), pattern) for pattern in patterns)


def chosen(name: str, enabled: Iterable[str], disabled: Iterable[str]) -> bool:
    """With an `enabled` list only what it names, else all that `disabled` does not name."""
    enabled = list(enabled)
    return matches(name, enabled) if enabled else not matches(name, disabled)


def _match(name: str, pattern: str) -> bool:
    if not pattern.startswith("re:"):
        return fnmatchcase(name, pattern.casefold())
    try:
        return re.fullmatch(pattern[3:], name, re.IGNORECASE) is not None
    except re.error:
        return False
