"""Check a configuration: report errors with their place, and warn of unknown keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from kin_nb.core.config.entries import MCPHttp, MCPStdio, ModelConfig, ProviderConfig
from kin_nb.core.config.errors import ConfigError, LLMNotConfigured
from kin_nb.core.config.layers import NAMED, Layer, Layers
from kin_nb.core.config.toml_file import KeyPath
from kin_nb.core.config.values import ConfigValues, ObservabilityConfig, ProjectContextConfig, SessionLoggingConfig
from kin_nb.core.modes import Policy

TERMINAL_ONLY = frozenset(
    {
        *("active_transcribe_model", "active_tts_model", "ask_confirmation_on_exit", "autocopy_to_clipboard"),
        *("disable_welcome_banner_animation", "displayed_workdir", "enable_notifications", "enable_telemetry"),
        *("enable_update_checks", "file_watcher_for_autocomplete", "narrator_enabled", "textual_theme", "theme"),
        *("vim_keybindings", "voice_mode_enabled"),
    }
)
"""Settings of Kin Code's terminal program, which reads the same file: they are ignored without a warning."""

_ENTRIES: dict[str, tuple[type[BaseModel], ...]] = {
    "providers": (ProviderConfig,),
    "models": (ModelConfig,),
    "mcp_servers": (MCPHttp, MCPStdio),
    "project_context": (ProjectContextConfig,),
    "session_logging": (SessionLoggingConfig,),
    "observability": (ObservabilityConfig,),
}
_OTHER_AGENTS = {
    "model": "active_model",
    "default_model": "active_model",
    "approval_policy": "policy",
    "approval_mode": "policy",
    "permission_mode": "policy",
    "mode": "policy",
    "allowed_tools": "enabled_tools",
    "disallowed_tools": "disabled_tools",
    "mcpServers": "mcp_servers",
    "max_turns": "max_steps_per_turn",
    "sandbox": "[tools.bash] sandbox",
    "sandbox_mode": "[tools.bash] sandbox",
    "system_prompt": "system_prompt_id",
}
"""Names that other agents (Claude Code, Codex CLI, Gemini CLI) use for our settings: suggested, not accepted."""
_OTHER_NAMES = {"providers": {"custom_headers"}, "models": {"pricing"}}


def validation_error(error: ValidationError, values: Mapping[str, Any], layers: Layers) -> ConfigError:
    """Return the first of pydantic's errors with its place. `values`: as merged, lists of NAMED by name."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = tuple(map(str, first["loc"]))
    if len(path) > 1 and path[0] in NAMED:
        rest = path[3:4] if path[0] == "mcp_servers" else path[2:]  # pydantic puts the kind of server in between
        path = (path[0], list(values[path[0]])[int(path[1])], *rest)
    what = first["msg"].removeprefix("Value error, ")
    return ConfigError(f"{layers.place(path)}{'.'.join(path)}: {what}.")


def check(config: ConfigValues) -> None:
    """Check settings that depend on each other. Raises ConfigError."""
    for path, problem in _problems(config):
        kind = LLMNotConfigured if path[0] in {"active_model", "models"} else ConfigError
        raise kind(f"{config.layers.place(path)}{problem}")


def _problems(config: ConfigValues) -> Iterator[tuple[KeyPath, str]]:
    if config.policy not in set(Policy):
        yield ("policy",), f'policy must be one of {", ".join(Policy)}, got "{config.policy}".'
    try:
        config.get_active_model()
    except ConfigError as error:
        yield ("active_model",), str(error)
    for model in config.models:
        try:
            config.get_provider_for_model(model)
        except ConfigError as error:
            yield ("models", model.alias, "provider"), str(error)
    for server in config.mcp_servers:
        if isinstance(server, MCPStdio):
            try:
                server.argv()
            except ValueError as error:
                problem = f'the command of MCP server "{server.name}" cannot be run: {str(error).lower()}.'
                yield ("mcp_servers", server.name, "command"), problem
    if "system_prompt_id" in config.model_fields_set:
        try:
            config.system_prompt  # noqa: B018  (it is read)
        except ConfigError as error:
            yield ("system_prompt_id",), str(error)


def unknown_keys(layer: Layer) -> Iterator[str]:
    """Yield a warning for each unknown key. The keys of `[tools.NAME]` are checked by the tool itself."""
    yield from _unknown(layer, (), layer.values, {*ConfigValues.model_fields, *TERMINAL_ONLY})
    for key, models in _ENTRIES.items():
        value = layer.values.get(key)
        known = {name for model in models for name in model.model_fields} | _OTHER_NAMES.get(key, set())
        for path, table in _tables(key, value):
            yield from _unknown(layer, path, table, known)


def _tables(key: str, value: Any) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    if not isinstance(value, Mapping):
        return
    if key not in NAMED:
        yield (key,), value
        return
    for name, entry in value.items():
        yield (key, name), entry


def _unknown(layer: Layer, path: KeyPath, table: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    for key in table:
        if key in known:
            continue
        from difflib import get_close_matches  # noqa: PLC0415  (only for a mistake)

        near = [_OTHER_AGENTS[key]] if not path and key in _OTHER_AGENTS else get_close_matches(key, known, 1)
        advice = f" Did you mean {near[0]}?" if near else " It is ignored."
        yield f"{layer.place((*path, key))}{'.'.join((*path, key))} is not a setting.{advice}"
