"""Metadata in the first line of a session log: the header, the place and time of the start, the settings."""

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
    """Return the header of a session at its first prompt. `system_prompt`: redacted."""
    return {
        "format": LOG_FORMAT,
        "session": session_id,
        "model": config.get_active_model().alias,
        **workspace_location(config),
        "system_prompt": sha256(system_prompt),
        "tools": sha256([tool.model_dump() for tool in tools]),
    }


def workspace_location(config: KinConfig) -> dict[str, Any]:
    """Return the workspace folder, and its git commit and branch. A branch whose name contains a secret is None."""
    root = config.effective_workdir
    head = git_head(root)
    branch, no_place = head.recorded_branch, Path("/")
    if branch and Redactor(secret_values(config), no_place, no_place).text(branch) != branch:
        branch = None
    return {"workspace": str(root), "commit": head.commit, "branch": branch}


def session_metadata(workdir: Path) -> dict[str, Any]:
    """Return start_time (ISO 8601, seconds, with UTC offset), git_commit, git_branch, username, environment.

    Starts no process and does not raise: unknown values are None, an unknown user name is "".
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
    """Return selected settings for the session document: no address, header, variable or command of a server.

    Settings of tools may contain anything: texts under the name of a secret are left out, all others are redacted.
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
