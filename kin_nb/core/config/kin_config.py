"""KinConfig: the settings of one agent, as a value (seed 000). Reading the layers is files.py's business."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kin_nb.core.config.errors import ConfigError, MissingAPIKeyError
from kin_nb.core.config.mcp_servers import MCPServer, parse_server
from kin_nb.core.config.providers import ModelConfig, ProviderConfig, default_models, default_providers
from kin_nb.core.tools.base import BaseToolConfig


class ProjectContextConfig(BaseModel):
    """Limits of what the system prompt says about the workspace: characters, levels, entries and seconds."""

    model_config = ConfigDict(extra="ignore")

    max_chars: int = 4_000
    max_doc_bytes: int = 32 * 1024
    max_depth: int = 2
    max_files: int = 120
    max_dirs_per_level: int = 20
    default_commit_count: int = 5
    timeout_seconds: float = 2.0


class SessionLoggingConfig(BaseModel):
    """`save_dir`: "" means ~/.kin-code/sessions. Not enabled: the session lives in memory only."""

    model_config = ConfigDict(extra="ignore")

    enabled: bool = True
    save_dir: str = ""
    session_prefix: str = "session"


class KinConfig(BaseModel):
    """The settings of one agent. Unknown keys are no error: a file may serve several programs and versions."""

    model_config = ConfigDict(extra="ignore", validate_default=True)

    active_model: str = "devstral-2"
    policy: str = "on-request"
    workdir: Path | None = None
    api_timeout: float = Field(default=720.0, gt=0)
    providers: list[ProviderConfig] = Field(default_factory=default_providers)
    models: list[ModelConfig] = Field(default_factory=default_models)

    system_prompt_id: str = "default"
    instructions: str = ""
    include_model_info: bool = True
    include_project_context: bool = True
    include_prompt_detail: bool = True
    include_commit_signature: bool = True
    project_context: ProjectContextConfig = Field(default_factory=ProjectContextConfig)

    auto_compact_threshold: int = 200_000
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

    @field_validator("mcp_servers", mode="before")
    @classmethod
    def _transport_from_keys(cls, servers: Any) -> Any:
        return [parse_server(raw) for raw in servers] if isinstance(servers, list) else servers

    @property
    def effective_workdir(self) -> Path:
        return (self.workdir or Path.cwd()).expanduser().resolve()

    def get_active_model(self) -> ModelConfig:
        """Raises ConfigError, listing the aliases, when `active_model` names none."""
        for model in self.models:
            if self.active_model in (model.alias, model.name):
                return model
        known = ", ".join(m.alias for m in self.models)
        raise ConfigError(f'active_model = "{self.active_model}" names no model. Known: {known}.')

    def get_provider_for_model(self, model: ModelConfig) -> ProviderConfig:
        """Raises ConfigError when the model's provider is not configured."""
        for provider in self.providers:
            if provider.name == model.provider:
                return provider
        known = ", ".join(p.name for p in self.providers)
        raise ConfigError(
            f'model "{model.alias}" names provider "{model.provider}", which is not configured. Known: {known}.'
        )

    def compact_at(self, model: ModelConfig) -> int:
        """Tokens of context at which the conversation is compacted: the threshold, at most 90 % of the window."""
        own = model.auto_compact_threshold
        threshold = self.auto_compact_threshold if own is None else own
        window = model.context_window * 9 // 10
        return min(threshold, window) if threshold > 0 else window

    def check_api_key(self) -> None:
        """Raises MissingAPIKeyError when the active model could not be reached for want of a key."""
        provider = self.get_provider_for_model(self.get_active_model())
        if provider.api_key_env_var and not provider.api_key:
            raise MissingAPIKeyError(provider.api_key_env_var, provider.name)

    @classmethod
    def load(cls, agent: str | None = None, **overrides: Any) -> KinConfig:
        """The layers of files.py, merged; `agent` names agents/NAME.toml. Raises ConfigError with file and line."""
        from kin_nb.core.config.files import load_config  # noqa: PLC0415  (tomllib only when a file is read)

        del agent
        return load_config(overrides)
