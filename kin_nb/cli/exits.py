"""How commands end, and what they say beside their output."""

from __future__ import annotations

import sys

DONE, FAILED, USAGE, LIMITED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: 3 is drift for replay, a limit for run. A signal other than Ctrl-C's: 128 and its number."""


def fail(message: str, code: int = FAILED) -> int:
    print(message, file=sys.stderr)
    return code


def note(message: str) -> None:
    """For the person, not for the program that reads stdout."""
    print(message, file=sys.stderr)


def warn(warning: str) -> None:
    note(f"warning: {warning}")
