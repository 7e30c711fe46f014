"""How commands end."""

from __future__ import annotations

import sys

DONE, FAILED, USAGE, LIMITED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: 3 is drift for replay, a limit for run."""


def fail(message: str, code: int = FAILED) -> int:
    print(message, file=sys.stderr)
    return code
