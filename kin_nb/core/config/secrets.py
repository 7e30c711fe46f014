"""The secrets that the configuration and the environment name: what must never be shown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kin_nb.core.config.keys import find_key, known_keys
from kin_nb.core.redaction import SHORTEST, is_secret_name, url_passwords

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig


def key_names(config: KinConfig) -> list[str]:
    """The variables that the configuration takes keys from, whatever their names."""
    names = [provider.api_key_env_var for provider in config.providers]
    names += [server.api_key_env for server in config.mcp_servers if server.transport != "stdio"]
    names += [str((tool.model_extra or {}).get("api_key_env", "")) for tool in config.tools.values()]
    return [name for name in dict.fromkeys(names) if name]


def secret_values(config: KinConfig, environment: Mapping[str, str] | None = None) -> list[str]:
    """The values that must never be shown: keys wherever they lie, secret headers, and the environment's secrets."""
    environment = os.environ if environment is None else environment
    values = [value for name, value in environment.items() if is_secret_name(name)]
    values += [password for value in environment.values() for password in url_passwords(value)]
    for provider in config.providers:
        values.append(environment.get(provider.api_key_env_var, "") or provider.api_key or "")
        values += [value for name, value in provider.extra_headers.items() if is_secret_name(name)]
    values += [*known_keys(), *_server_secrets(config)]
    return [value for value in dict.fromkeys(values) if len(value) >= SHORTEST]


def key_values() -> list[str]:
    """The secrets that are known without a configuration: of the environment, by their names, and those kept elsewhere."""
    values = [value for name, value in os.environ.items() if is_secret_name(name)]
    return [value for value in dict.fromkeys([*values, *known_keys()]) if len(value) >= SHORTEST]


def _server_secrets(config: KinConfig) -> Iterator[str]:
    """The keys of MCP servers, and what they are sent, or given as variables, under names that hold secrets."""
    for server in config.mcp_servers:
        if server.transport != "stdio":
            yield find_key(server.api_key_env) or ""
        sent = server.env if server.transport == "stdio" else server.http_headers()
        for name, value in sent.items():
            if is_secret_name(name) or "${" in value:
                expanded = os.path.expandvars(value)
                yield expanded
                yield expanded.rpartition(" ")[2]  # the key alone, without "Bearer"
