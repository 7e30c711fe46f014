"""Secrets of the configuration and the environment, and masking them in reports."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kin_nb.core.config.keys import find_key, known_keys
from kin_nb.core.config.toml_file import KeyPath
from kin_nb.core.config.values import ConfigValues
from kin_nb.core.redaction import SECRET, SHORTEST, Redactor, is_secret_name, url_passwords


def key_names(config: ConfigValues) -> list[str]:
    """Return the variables that the configuration reads keys from."""
    names = [provider.api_key_env_var for provider in config.providers]
    names += [server.api_key_env for server in config.mcp_servers if server.transport != "stdio"]
    names += [str((tool.model_extra or {}).get("api_key_env", "")) for tool in config.tools.values()]
    return [name for name in dict.fromkeys(names) if name]


def secret_values(config: ConfigValues, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the values that must never be shown: all keys, secret headers, and secrets in the environment."""
    environment = os.environ if environment is None else environment
    values = [value for name, value in environment.items() if is_secret_name(name)]
    values += [password for value in environment.values() for password in url_passwords(value)]
    for provider in config.providers:
        values.append(environment.get(provider.api_key_env_var, "") or provider.api_key or "")
        values += [value for name, value in provider.extra_headers.items() if is_secret_name(name)]
    values += [*known_keys(), *_server_secrets(config)]
    return [value for value in dict.fromkeys(values) if len(value) >= SHORTEST]


def key_values() -> list[str]:
    """Return the secrets that are known without a configuration: in the environment, by name, and stored keys."""
    values = [value for name, value in os.environ.items() if is_secret_name(name)]
    return [value for value in dict.fromkeys([*values, *known_keys()]) if len(value) >= SHORTEST]


def _server_secrets(config: ConfigValues) -> Iterator[str]:
    """Yield the keys of MCP servers, and the headers and variables with secret names."""
    for server in config.mcp_servers:
        if server.transport != "stdio":
            yield find_key(server.api_key_env) or ""
        sent = server.env if server.transport == "stdio" else server.http_headers()
        for name, value in sent.items():
            if is_secret_name(name) or "${" in value:
                expanded = os.path.expandvars(value)
                yield expanded
                yield expanded.rpartition(" ")[2]  # the key alone, without "Bearer"


_HIDDEN_TABLES = {"extra_headers", "headers", "env"}
_QUERY_VALUE = re.compile(r"([?&][^=&#\s]*=)[^&#\s]+")
_NAMED = re.compile(r"""(["']?)([A-Za-z][\w-]*)([=:])(.+)""", re.DOTALL)
_FLAG = re.compile(r"(--?)([A-Za-z][\w-]*)(=?)(.*)", re.DOTALL)


def masker(config: ConfigValues) -> Callable[[KeyPath, Any], Any]:
    """Return a function (path, value) -> the value with secrets masked."""
    root = Path("/")  # paths are not shortened
    redact = Redactor(secret_values(config), root, root).text

    def text(value: str) -> str:
        return redact(_QUERY_VALUE.sub(rf"\1{SECRET}", value))

    def mask(path: KeyPath, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: mask((*path, key), item) for key, item in value.items()}
        if isinstance(value, list):
            words = _without_flag_values(value) if path[0] == "mcp_servers" else value
            return [mask(path, word) for word in words]
        if not isinstance(value, str) or not value:
            return value
        hidden = len(path) > 3 and path[2] in _HIDDEN_TABLES  # noqa: PLR2004  ((providers, NAME, extra_headers, header))
        if hidden or (path[0] == "tools" and is_secret_name(path[-1])):
            return SECRET
        if path[0] == "mcp_servers":
            value = " ".join(_without_flag_values(value.split(" ")))
        return text(value)

    return mask


def _without_flag_values(words: list[Any]) -> list[Any]:
    """Mask the values of `--token x`, `--token=x`, `TOKEN=x` and `X-Api-Key: x` in a command line."""
    shown: list[Any] = []
    hide_next = False
    for word in words:
        flag = _FLAG.fullmatch(word) if isinstance(word, str) else None
        secret = flag is not None and is_secret_name(flag[2])
        named = _NAMED.fullmatch(word) if isinstance(word, str) and flag is None else None
        if hide_next and flag is None:
            shown.append(SECRET)
        elif named is not None and (is_secret_name(named[2]) or named[2].lower() == "authorization"):
            shown.append(f"{named[1]}{named[2]}{named[3]}{SECRET}")
        elif flag is not None and secret and flag[3]:
            shown.append(f"{flag[1]}{flag[2]}={SECRET}")
        else:
            shown.append(word)
        header = isinstance(word, str) and word.strip("'\"").endswith(":")
        hide_next = (flag is not None and secret and not flag[3]) or (header and _names_a_secret(word))
    return shown


def _names_a_secret(word: str) -> bool:
    """Whether a word such as `'X-Api-Key:` is a secret header before its value, in a line split at spaces."""
    name = word.strip("'\":")
    return is_secret_name(name) or name.lower() == "authorization"
