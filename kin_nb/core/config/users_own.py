"""Settings that are the user's alone: no project may set them, however trusted it is.

They decide how much runs unasked (`policy`, a mode that approves more), and which server gets the user's keys and prompts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kin_nb.core.config.layers import FileLayer, Layer, deep_merge
from kin_nb.core.config.toml_file import KeyPath
from kin_nb.core.modes import AgentMode

USERS_OWN: tuple[KeyPath, ...] = (
    ("policy",),
    ("providers",),
    ("audit",),
    ("session_logging", "encrypt"),
    ("session_logging", "key_file"),
    ("observability",),
    ("tools", "web_fetch", "allow_private"),
    ("tools", "web_fetch", "proxy"),
    ("tools", "web_search", "url"),
    ("tools", "web_search", "api_key_env"),
    ("tools", "web_search", "api_key_header"),
    ("tools", "web_search", "api_key_format"),
)
_OF_EACH_TOOL = ("env", "keep_env", "key_names", "sandbox", "sandbox_network", "denylist_standalone")
_OF_EACH_SERVER = ("api_key_env", "api_key_header", "api_key_format", "env_vars")
_FOR_THE_USERS_SERVERS = ("name", "disabled", "disabled_tools", "prompt", "startup_timeout_sec", "tool_timeout_sec")
"""All that a project may say about an MCP server that the user has configured."""
_CAUTIOUS = (AgentMode.DEFAULT, AgentMode.PLAN)
"""The built-in modes that a project's own mode may be based on."""


def drop_users_own(layer: FileLayer, user: Iterable[Layer]) -> list[str]:
    """Take them out of a project's layer; a warning for each. Any other layer stays as it is.

    `user`: the user's own layers, lowest first. What they deny a tool stays denied: the project's list adds to theirs.
    """
    if layer.project is None:
        return []
    user = tuple(user)
    servers = {name for own in user for name in _entries(own, "mcp_servers")}
    tools: Mapping[str, Any] = {}
    for own in user:
        tools = deep_merge(tools, _entries(own, "tools"))
    warnings = []
    for path in [*_users_own(layer, servers), *_lifting(layer, tools)]:
        if layer.has(path):
            name = ".".join(path)
            warnings.append(
                f"{layer.place(path)}{name} is the user's to set, and is ignored here; use ~/.kin-code/config.toml."
            )
            _drop(layer.values, path)
    _add_denied(layer, tools)
    return warnings


def _lifting(layer: FileLayer, tools: Mapping[str, Any]) -> Iterator[KeyPath]:
    """What would let a tool run that is `never` to run in the user's settings."""
    for name, entry in _entries(layer, "tools").items():
        own = tools.get(name)
        if isinstance(entry, Mapping) and isinstance(own, Mapping) and own.get("permission") == "never":
            if entry.get("permission") != "never":
                yield ("tools", name, "permission")
            yield ("tools", name, "allowlist")


def _add_denied(layer: FileLayer, tools: Mapping[str, Any]) -> None:
    for name, entry in _entries(layer, "tools").items():
        own = tools.get(name)
        denied = own.get("denylist") if isinstance(own, Mapping) else None
        if isinstance(entry, dict) and isinstance(denied, list) and isinstance(entry.get("denylist"), list):
            entry["denylist"] = [*denied, *(each for each in entry["denylist"] if each not in denied)]


def _users_own(layer: FileLayer, own_servers: Collection[str]) -> Iterator[KeyPath]:
    yield from USERS_OWN
    if _mode(layer) not in {None, *_CAUTIOUS}:
        yield ("mode",)
    for name in _entries(layer, "tools"):
        yield from (("tools", name, key) for key in _OF_EACH_TOOL)
    for name, server in _entries(layer, "mcp_servers").items():
        entry = server if isinstance(server, Mapping) else {}
        if name in own_servers:
            yield from (("mcp_servers", name, key) for key in entry if key not in _FOR_THE_USERS_SERVERS)
        yield from (("mcp_servers", name, key) for key in _OF_EACH_SERVER)
        given = entry.get("env")
        for variable, value in given.items() if isinstance(given, Mapping) else ():
            if "${" in str(value):  # a variable of the user's, which may hold a key
                yield ("mcp_servers", name, "env", variable)


def _mode(layer: FileLayer) -> AgentMode | None:
    value = layer.values.get("mode")
    try:
        return None if value is None else AgentMode(str(value).replace("-", "_"))
    except ValueError:
        return None  # an error soon, with its place


def _entries(layer: Layer, key: str) -> Mapping[str, Any]:
    entries = layer.values.get(key)
    return entries if isinstance(entries, Mapping) else {}


def _drop(values: Any, path: KeyPath) -> None:
    *tables, key = path
    for table in tables:
        values = values[table]
    del values[key]
