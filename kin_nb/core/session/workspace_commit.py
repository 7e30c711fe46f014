"""Which commit the workspace was at when the session began: what a re-execution unpacks."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def head_commit(workspace: Path) -> str | None:
    """The commit of HEAD; None outside git and without git. Uncommitted changes are not in it: a rerun shows them as drift."""
    command = ["git", "-C", str(workspace), "rev-parse", "--verify", "HEAD"]
    try:
        head = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return head if re.fullmatch(r"[0-9a-f]{40}", head) else None
