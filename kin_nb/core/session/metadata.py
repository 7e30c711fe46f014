"""What the first line of a session's log says about it as a whole: its header, where and when it began, its settings."""

from __future__ import annotations

import getpass
from datetime import datetime
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.messages import AvailableTool
from kin_nb.core.records import sha256
from kin_nb.core.redaction import SECRET, Redactor, is_secret_name
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


def config_snapshot(config: KinConfig) -> dict[str, Any]:
    """`config_snapshot` of seed 000's document. Chosen fields only: no server's address, header, variable or command.

    Settings of tools may hold anything: texts under a secret's name are left out, all others redacted.
    """
    snapshot = {
        "active_model": config.get_active_model().alias,
        "models": [model.model_dump(mode="json") for model in config.models],
        "policy": config.policy,
        "system_prompt_id": config.system_prompt_id,
        "auto_compact_threshold": config.auto_compact_threshold,
        "tools": {name: tool.model_dump(mode="json", exclude_unset=True) for name, tool in config.tools.items()},
        "enabled_tools": config.enabled_tools,
        "disabled_tools": config.disabled_tools,
        "mcp_servers": [server.name for server in config.mcp_servers],
    }
    redacted: dict[str, Any] = _redacted(snapshot, Redactor(secret_values(config), config.effective_workdir))
    return redacted


def _redacted(value: Any, redactor: Redactor, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _redacted(item, redactor, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, redactor, name) for item in value]
    if isinstance(value, str):
        return SECRET if value and is_secret_name(name) else redactor.text(value)
    return value
