"""Where and when a session began, for the log's first line (SessionMetadata of seed 002)."""

from __future__ import annotations

import getpass
from datetime import datetime
from pathlib import Path
from typing import Any

from kin_nb.core.workspace_commit import git_head


def session_surroundings(workdir: Path) -> dict[str, Any]:
    """start_time (ISO 8601, seconds, with the offset from UTC), git_commit, git_branch, username, environment.

    No process is started, nothing raises: what is not known is None, the user's name "".
    """
    head = git_head(workdir)
    return {
        "start_time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "git_commit": head.commit,
        "git_branch": head.branch,
        "username": _username(),
        "environment": {"working_directory": str(workdir)},
    }


def _username() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user without a name
        return ""
