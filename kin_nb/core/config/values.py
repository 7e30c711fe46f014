"""ConfigValues: the settings of one agent, as a value; the base prompts; names chosen by pattern.

Reading the layers is loading.py's business. The prompts that come with kin_nb are in the folder `prompts` next to this file;
core.system_prompt puts a whole prompt together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from kin_nb.core.config.entries import (
    MCPServer,
    ModelConfig,
    ProviderConfig,
    default_models,
    default_providers,
    parse_server,
)
from kin_nb.core.config.errors import ConfigError, LLMNotConfigured, MissingAPIKeyError, did_you_mean
from kin_nb.core.config.layers import Layers
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.workspace import read_bytes


class ProjectContextConfig(BaseModel):
    """Limits of what the system prompt says about the workspace: characters, levels, entries and seconds."""

    model_config = ConfigDict(extra="ignore")

    max_chars: int = Field(default=4_000, ge=0)
    max_doc_bytes: int = Field(default=32 * 1024, ge=0)
    max_depth: int = Field(default=2, ge=0)
    max_files: int = Field(default=120, ge=0)
    max_files_per_dir: int = Field(default=10, ge=0)
    max_dirs_per_level: int = Field(default=20, ge=0)
    default_commit_count: int = Field(default=5, ge=0)
    timeout_seconds: float = Field(default=2.0, ge=0, allow_inf_nan=False)


class SessionLoggingConfig(BaseModel):
    """How sessions are stored. Not enabled: a session is kept in memory only.

    `save_dir`: "" means ~/.kin-code/sessions. `encrypt`: applies to new sessions. `key_file`: "" means ~/.kin-code/session.key.
    """

    model_config = ConfigDict(extra="ignore")

    enabled: bool = True
    save_dir: str = ""
    session_prefix: str = "session"
    encrypt: Literal["off", "key-file", "passphrase"] = "off"
    key_file: str = ""

    @field_validator("save_dir", "key_file")
    @classmethod
    def _leads_somewhere(cls, path: str) -> str:
        try:
            Path(path).expanduser()
        except RuntimeError:
            raise ValueError(f"{path}: this user does not exist") from None
        return path


class ObservabilityConfig(BaseModel):
    """Where the events of a session are written (docs/how-to/observe-sessions.md).

    Paths are relative to ~/.kin-code; "" switches an output off. `contents`: include prompts, replies, arguments and results,
    without secrets.
    """

    model_config = ConfigDict(extra="ignore")

    log: str = ""
    otel: bool = False
    prometheus: str = ""
    contents: bool = False


class SaveConfig(BaseModel):
    """`check_seconds`: the time limit for playing a saved notebook once in a sandbox, to find problems; 0: no check."""

    model_config = ConfigDict(extra="ignore")

    check_seconds: int = Field(default=30, ge=0)


class ConfigValues(BaseModel):
    """The settings of one agent. Unknown keys are ignored: a file may be shared by several programs and versions.

    `layers`: the sources that `load` merged; empty for a configuration made in Python.
    """

    model_config = ConfigDict(extra="ignore", validate_default=True)

    active_model: str = "devstral-2"
    policy: str = "on-request"
    workdir: Path | None = None
    api_timeout: float = Field(default=720.0, gt=0, allow_inf_nan=False)
    providers: list[ProviderConfig] = Field(default_factory=default_providers)
    models: list[ModelConfig] = Field(default_factory=default_models)

    system_prompt_id: str = "default"
    instructions: str = ""
    include_model_info: bool = True
    include_project_context: bool = True
    include_prompt_detail: bool = True
    include_commit_signature: bool = True
    project_context: ProjectContextConfig = Field(default_factory=ProjectContextConfig)

    max_steps_per_turn: int = Field(default=1000, ge=1)
    loop_detection: bool = True
    dmail: bool = False
    max_dmails_per_turn: int = Field(default=3, ge=0)
    prune_at: int = Field(default=80, ge=0, le=100)
    auto_compact_threshold: int = Field(default=200_000, ge=0)
    context_warnings: bool = False

    tools: dict[str, BaseToolConfig] = Field(default_factory=dict)
    tool_paths: list[Path] = Field(default_factory=list)
    enabled_tools: list[str] = Field(default_factory=list)
    disabled_tools: list[str] = Field(default_factory=list)
    mcp_servers: list[MCPServer] = Field(default_factory=list)

    skill_paths: list[Path] = Field(default_factory=list)
    enabled_skills: list[str] = Field(default_factory=list)
    disabled_skills: list[str] = Field(default_factory=list)

    session_logging: SessionLoggingConfig = Field(default_factory=SessionLoggingConfig)
    save: SaveConfig = Field(default_factory=SaveConfig)
    audit: bool = True
    observability: ObservabilityConfig = Field(default_factory=ObservabilityConfig)

    _layers: Layers = PrivateAttr(default_factory=Layers)

    @field_validator("mcp_servers", mode="before")
    @classmethod
    def _transport_from_keys(cls, servers: Any) -> Any:
        return [parse_server(raw) for raw in servers] if isinstance(servers, list) else servers

    @property
    def effective_workdir(self) -> Path:
        return (self.workdir or Path.cwd()).expanduser().resolve()

    @property
    def layers(self) -> Layers:
        return self._layers

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems that are not errors: one line each, with its place."""
        return self._layers.warnings

    @property
    def project_trusted(self) -> bool:
        """Whether the user trusts the workspace: its settings, tools and instructions are used."""
        return self._layers.trusted is not None and self._layers.trusted.folder == self.effective_workdir

    def is_as_trusted(self, path: Path, content: bytes) -> bool:
        """Whether a file may be used: it has not changed since it was trusted, or it is the user's own and not a project's."""
        trusted = self._layers.trusted
        if trusted is None or trusted.has(path, content):
            return True
        return any(map(path.is_relative_to, self._layers.users_places())) and not trusted.covers(path)

    @property
    def system_prompt(self) -> str:
        """The base prompt that `system_prompt_id` names (seed 003). Raises ConfigError if it does not exist."""
        return load_prompt(
            self.system_prompt_id, self.effective_workdir, trusted=self.project_trusted, may_use=self.is_as_trusted
        )

    def made_of(self, layers: Layers) -> None:
        self._layers = layers

    def get_active_model(self) -> ModelConfig:
        """Return the model that `active_model` names, by alias or name. Raises LLMNotConfigured, which lists the aliases."""
        for model in self.models:
            if self.active_model in (model.alias, model.name):
                return model
        aliases = [model.alias for model in self.models]
        near, known = did_you_mean(self.active_model, aliases), ", ".join(aliases) or "none"
        raise LLMNotConfigured(f'Unknown model "{self.active_model}".{near}\nModels: {known}.')

    def get_provider_for_model(self, model: ModelConfig) -> ProviderConfig:
        """Return the provider of the model. Raises LLMNotConfigured if it is not configured."""
        for provider in self.providers:
            if provider.name == model.provider:
                return provider
        names = [provider.name for provider in self.providers]
        near, known = did_you_mean(model.provider, names), ", ".join(names) or "none"
        raise LLMNotConfigured(
            f'Model "{model.alias}" uses the unknown provider "{model.provider}".{near}\nProviders: {known}.'
        )

    def prices_of(self, name: str) -> tuple[float, float]:
        """Return (input, output) in USD per million tokens; zeros for a model that is not configured."""
        model = next((model for model in self.models if name in (model.alias, model.name)), None)
        return (model.input_price, model.output_price) if model else (0.0, 0.0)

    def compact_at(self, model: ModelConfig) -> int:
        """Return the number of tokens from which the conversation is summarized: the threshold, at most 90 % of the window."""
        own = model.auto_compact_threshold
        threshold = self.auto_compact_threshold if own is None else own
        window = model.context_window * 9 // 10
        return min(threshold, window) if threshold > 0 else window

    def room_of(self, model: ModelConfig) -> int:
        """Return the tokens that a conversation may use: the context window, or less if the threshold is lower."""
        return min(model.context_window, self.compact_at(model) * 10 // 9)

    def check_api_key(self) -> None:
        """Raise MissingAPIKeyError if the active model needs a key that is not set."""
        provider = self.get_provider_for_model(self.get_active_model())
        if provider.api_key_env_var and not provider.api_key:
            raise MissingAPIKeyError(provider.api_key_env_var, provider.name)


LARGEST_PROMPT = 256 * 1024
"""Bytes of a prompt file."""
_PROMPT_ID = re.compile(r"[^./\\\x00][^/\\\x00]*")


class SystemPrompt(StrEnum):
    """The base prompts that come with kin_nb. "cli" is another name of the default one."""

    DEFAULT = "default"

    @classmethod
    def _missing_(cls, value: object) -> SystemPrompt | None:
        return cls.DEFAULT if value == "cli" else None

    @property
    def path(self) -> Path:
        return Path(__file__).parent / "prompts" / f"{self.value}.md"

    def read(self) -> str:
        return self.path.read_text(encoding="utf-8").strip()


def load_prompt(prompt_id: str, workdir: Path, *, trusted: bool, may_use: MayUse = anything) -> str:
    """Return a built-in prompt, else `prompt_id`.md of the trusted project, else of the user.

    Raises ConfigError if the file does not exist, is not readable text, or is refused by `may_use`.
    """
    try:
        return SystemPrompt(prompt_id).read()
    except ValueError:
        pass
    folders = _prompt_folders(workdir, trusted=trusted)
    if _PROMPT_ID.fullmatch(prompt_id):
        for path in (folder / f"{prompt_id}.md" for folder in folders):
            if os.access(path, os.F_OK):  # False, not an error, for a name that is too long
                return _read_prompt(prompt_id, path, may_use)
    known = {p.value for p in SystemPrompt} | {path.stem for folder in folders for path in folder.glob("*.md")}
    raise ConfigError(
        f'Unknown prompt: system_prompt_id = "{prompt_id}".{did_you_mean(prompt_id, known)}\n'
        f"Prompts: {', '.join(sorted(known))}. Your own: {shown(kin_home() / 'prompts')}/NAME.md."
    )


def _prompt_folders(workdir: Path, *, trusted: bool) -> list[Path]:
    return [*([workdir / ".kin-code" / "prompts"] if trusted else []), kin_home() / "prompts"]


def _read_prompt(prompt_id: str, path: Path, may_use: MayUse) -> str:
    try:
        content = read_bytes(path.resolve(), LARGEST_PROMPT, str(path))
        if may_use(path, content):
            return content.decode("utf-8-sig").strip()
        what = f"{path} has changed since its folder was trusted. See `kin-nb trust --show`."
    except UnicodeDecodeError:
        what = f"{path} is not UTF-8."
    except (ToolError, OSError) as error:
        what = str(error)
    raise ConfigError(f'system_prompt_id = "{prompt_id}" cannot be used: {what}')


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether any pattern matches `name`: a glob, or after `re:` a regular expression for the whole name.

    Case is ignored. An invalid regular expression matches nothing.
    """
    return any(_matches_one(name.casefold(), pattern) for pattern in patterns)


def chosen(name: str, enabled: Iterable[str], disabled: Iterable[str]) -> bool:
    """Whether `name` is enabled: listed in `enabled` if that is not empty, else not listed in `disabled`."""
    enabled = list(enabled)
    return matches(name, enabled) if enabled else not matches(name, disabled)


def _matches_one(name: str, pattern: str) -> bool:
    if not pattern.startswith("re:"):
        return fnmatchcase(name, pattern.casefold())
    try:
        return re.fullmatch(pattern[3:], name, re.IGNORECASE) is not None
    except re.error:
        return False
