"""Exit codes, and messages on stderr."""

from __future__ import annotations

import sys

DONE, FAILED, USAGE, LIMITED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes. 3: `replay` found differences, `run` reached a limit. A signal other than Ctrl-C's gives 128 + its number."""


def fail(message: str, code: int = FAILED) -> int:
    print(message, file=sys.stderr)
    return code


def note(message: str) -> None:
    """Write to stderr: for the user, not for a program that reads stdout."""
    print(message, file=sys.stderr)


def warn(warning: str) -> None:
    note(f"warning: {warning}")
