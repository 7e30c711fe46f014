"""A session's header: what its log and its notebook say about it as a whole."""

from __future__ import annotations

from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.session.log import LOG_FORMAT
from kin_nb.core.session.records import sha256
from kin_nb.core.session.workspace_commit import head_commit
from kin_nb.core.types import AvailableTool


def session_header(
    session_id: str, config: KinConfig, *, system_prompt: str, tools: list[AvailableTool]
) -> dict[str, Any]:
    """As the session is at its first prompt; `system_prompt` without secrets and places of this machine."""
    root = config.effective_workdir
    return {
        "format": LOG_FORMAT,
        "session": session_id,
        "model": config.get_active_model().alias,
        "workspace": str(root),
        "commit": head_commit(root),
        "system_prompt": sha256(system_prompt),
        "tools": sha256([tool.model_dump() for tool in tools]),
    }
