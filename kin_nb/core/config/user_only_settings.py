"""Settings that only the user may set. A project, also a trusted one, may set what is listed here and nothing else.

All other settings decide how much runs without asking (`policy`, a mode that approves more), which server gets the user's keys and
prompts, and what is stored of a session. What forbids something adds up (ADD_UP, `denylist`): no project can remove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy, deepcopy
from typing import Any

from kin_nb.core.config.entries import MCPHttp, MCPStdio, ModelConfig, default_models
from kin_nb.core.config.layers import ADD_UP, FileLayer, Layer, merge_layers
from kin_nb.core.config.toml_file import KeyPath
from kin_nb.core.config.values import ConfigValues
from kin_nb.core.modes import AgentMode

ADDING = frozenset(path[0] for path in ADD_UP if len(path) == 1)
"""Lists of a project that are added to the user's."""
CHOSEN = frozenset(
    {
        *("active_model", "system_prompt_id", "instructions", "project_context"),
        *("include_model_info", "include_project_context", "include_prompt_detail", "include_commit_signature"),
        *("context_warnings", "prune_at", "auto_compact_threshold", "dmail", "max_dmails_per_turn"),
        *("tool_paths", "skill_paths"),
    }
)
"""Settings that a project may choose."""
NARROWING = frozenset({"enabled_tools", "enabled_skills"})
"""Settings that a project may choose if the user has not: an empty list would allow everything again."""

OF_A_TOOL = frozenset({"permission", "allowlist", "denylist", "denylist_of_project"})
"""Keys of every tool. A custom tool may have more, but never those of _OF_THE_SESSION."""
OF_BUILT_IN_TOOLS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("read_file", "list_dir", "glob", "grep", "write_file", "search_replace", "edit_file", "apply_patch"),
        frozenset(),
    ),
    **dict.fromkeys(("web_search", "todo", "task", "ask_user", "memory", "skill", "send_dmail"), frozenset()),
    **dict.fromkeys(("notebook", "variables", "python"), frozenset()),
    "bash": frozenset({"default_timeout"}),
    "web_fetch": frozenset({"timeout"}),
}
_OF_THE_SESSION = frozenset(
    {"workdir", "key_names", "python", "env", "keep_env", "sandbox", "sandbox_network", "denylist_standalone"}
)

_FOR_A_USERS_MODEL = frozenset(
    {"alias", "temperature", "max_tokens", "context_window", "auto_compact_threshold", "supports_images", "thinking"}
)
"""Keys of the user's models that a project may set: not the provider, the name, or the price, which limits spending."""
_FOR_THE_USERS_SERVERS = frozenset(
    {"name", "disabled", "disabled_tools", "prompt", "startup_timeout_sec", "tool_timeout_sec"}
)
_OF_A_SERVER = _FOR_THE_USERS_SERVERS | {"transport", "command", "args", "env", "cwd", "url", "headers"}
"""Keys of a project's own server: none that would pass it a variable of the user."""
_CAUTIOUS = (AgentMode.DEFAULT, AgentMode.PLAN)
"""The built-in modes that a project's mode may be based on."""


def drop_user_only(layer: Layer, user: Iterable[Layer]) -> list[str]:
    """Remove from a project's layer what only the user may set; return a warning for each. Other layers stay unchanged.

    `user`: the user's own layers, lowest first. What they deny stays denied: the project's denylist is added to theirs and to
    the tool's own.
    """
    if layer.project is None:
        return []
    warnings = _dropped(
        layer, _user_only_keys(layer, merge_layers([Layer({"models": []}), *user], {"models": default_models}))
    )
    for entry in _entries(layer.values, "tools").values():
        if isinstance(entry, dict) and _is_texts(entry.get("denylist")):
            entry["denylist_of_project"] = entry.pop("denylist")
    return warnings


def under_mode(layers: Iterable[Layer], mode: Layer) -> tuple[tuple[Layer, ...], list[str]]:
    """Return copies of `layers` in which no project weakens the settings of `mode`, and a warning for each removed key.

    If `mode` itself belongs to a project, what only the user may set is removed from it.
    """
    layers = tuple(layers)
    user = [layer for layer in layers if layer.project is None]
    if mode.project is not None:
        return layers, drop_user_only(mode, user)
    changed, warnings = [], list[str]()
    for layer in layers:
        if layer.project is not None:
            layer = copy(layer)  # noqa: PLW2901
            layer.values = deepcopy(layer.values)
            warnings += drop_user_only(layer, [*user, mode])
        changed.append(layer)
    return tuple(changed), warnings


def raising_trust(layers: Iterable[Layer]) -> Iterator[str]:
    """Yield a warning for each tool that a trusted project lets run without asking."""
    for layer in layers:
        tools = layer.values.get("tools") if isinstance(layer, FileLayer) and layer.project is not None else None
        for name, rule in tools.items() if isinstance(tools, Mapping) else ():
            if isinstance(rule, Mapping) and (rule.get("permission") == "always" or rule.get("allowlist")):
                yield f"{layer.place(('tools', name))}this project lets the tool {name} run without asking."


def _dropped(layer: Layer, paths: Iterable[KeyPath]) -> list[str]:
    warnings = []
    for path in list(paths):
        name = ".".join(path)
        warnings.append(
            f"{layer.place(path)}{name} can only be set by the user and is ignored here. Use ~/.kin-code/config.toml."
        )
        _drop(layer.values, path)
    return warnings


def _user_only_keys(layer: Layer, user: Mapping[str, Any]) -> Iterator[KeyPath]:
    """Yield each key that a project may not set. `user`: the merged values of the user. Unknown keys are not checked."""
    for key, value in layer.values.items():
        if key == "mode":
            yield from [] if _mode(value) in {None, *_CAUTIOUS} else [(key,)]
        elif key == "tools":
            yield from _of_tools(_entries(layer.values, key), _entries(user, key))
        elif key == "models":
            yield from _of_models(value, user["models"])
        elif key == "mcp_servers":
            yield from _of_servers(value, _entries(user, key))
        elif (
            key in ConfigValues.model_fields and key not in CHOSEN | ADDING and (key not in NARROWING or user.get(key))
        ):
            table = key != "providers" and isinstance(value, Mapping)
            yield from ((key, each) for each in value) if table else [(key,)]


def _of_tools(tools: Mapping[str, Any], user: Mapping[str, Any]) -> Iterator[KeyPath]:
    for name, entry in tools.items():
        if not isinstance(entry, Mapping):
            continue  # reported later, with its place
        own = _entries(user, name)
        never = own.get("permission") == "never"
        for key, value in entry.items():
            if key in OF_A_TOOL:
                lifts = never and (key == "allowlist" or (key == "permission" and value != "never"))
            elif name in OF_BUILT_IN_TOOLS:
                lifts = key not in OF_BUILT_IN_TOOLS[name]
            else:
                lifts = key in _OF_THE_SESSION or key in own
            if lifts:
                yield ("tools", name, key)


def _of_models(models: Mapping[str, Any], user: Mapping[str, Any]) -> Iterator[KeyPath]:
    own = {*ModelConfig.model_fields, "pricing"} - _FOR_A_USERS_MODEL
    for name, entry in models.items():
        yield from (("models", name, key) for key in entry if name in user and key in own)


def _of_servers(servers: Mapping[str, Any], user: Mapping[str, Any]) -> Iterator[KeyPath]:
    known = {*MCPHttp.model_fields, *MCPStdio.model_fields}
    for name, entry in servers.items():
        own = known - (_FOR_THE_USERS_SERVERS if name in user else _OF_A_SERVER)
        for key, value in entry.items():
            if key in own or (key == "disabled" and name in user and value is not True):
                yield ("mcp_servers", name, key)
            elif key == "env" and isinstance(value, Mapping):  # ${NAME} is a variable of the user, possibly a key
                yield from (("mcp_servers", name, key, each) for each, given in value.items() if "${" in str(given))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _mode(value: Any) -> AgentMode | None:
    try:
        return AgentMode(str(value).replace("-", "_"))
    except ValueError:
        return None  # reported later, with its place


def _entries(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = values.get(key)
    return entries if isinstance(entries, Mapping) else {}


def _drop(values: Any, path: KeyPath) -> None:
    *tables, key = path
    for table in tables:
        values = values[table]
    del values[key]
