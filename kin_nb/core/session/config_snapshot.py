"""The settings that a session ran with, as far as a reader of its log wants to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kin_nb.core.config.secrets import secret_values
from kin_nb.core.redaction import SECRET, Redactor, is_secret_name

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig


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
