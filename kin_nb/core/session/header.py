"""A session's header: what its log and its notebook say about it as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.messages import AvailableTool
from kin_nb.core.records import sha256
from kin_nb.core.redaction import Redactor
from kin_nb.core.session.log import LOG_FORMAT
from kin_nb.core.workspace_commit import git_head


def session_header(
    session_id: str, config: KinConfig, *, system_prompt: str, tools: list[AvailableTool]
) -> dict[str, Any]:
    """As the session is at its first prompt; `system_prompt` without secrets and places of this machine."""
    return {
        "format": LOG_FORMAT,
        "session": session_id,
        "model": config.get_active_model().alias,
        **workspace_place(config),
        "system_prompt": sha256(system_prompt),
        "tools": sha256([tool.model_dump() for tool in tools]),
    }


def workspace_place(config: KinConfig) -> dict[str, Any]:
    """Where the session works: the folder, and the commit and branch of git. A branch that is called after a secret is unknown."""
    root = config.effective_workdir
    head = git_head(root)
    branch, no_place = head.recorded_branch, Path("/")
    if branch and Redactor(secret_values(config), no_place, no_place).text(branch) != branch:
        branch = None
    return {"workspace": str(root), "commit": head.commit, "branch": branch}
