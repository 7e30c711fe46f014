"""KinConfig: providers, models and tools, as values (seed 000). Reading the layers is config_files.py's business."""

from __future__ import annotations

import os
from enum import StrEnum, auto
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kin_nb.core.tools.base import BaseToolConfig


class ConfigError(Exception):
    """The configuration cannot be used. The text says where and what to do."""


class MissingAPIKeyError(ConfigError):
    """The active model's provider needs a key and its variable is not set."""

    def __init__(self, env_key: str, provider_name: str) -> None:
        self.env_key, self.provider_name = env_key, provider_name
        super().__init__(f"No key for {provider_name}: the variable {env_key} is not set.")


class Backend(StrEnum):
    GENERIC = auto()
    MISTRAL = auto()


class ProviderConfig(BaseModel):
    """A model server. `api_base` ends before `/chat/completions`; an empty `api_key_env_var` means no key."""

    name: str
    api_base: str
    api_key_env_var: str = ""
    api_style: str = "openai"
    backend: Backend = Backend.GENERIC
    reasoning_field_name: str = "reasoning_content"
    extra_headers: dict[str, str] = Field(default_factory=dict)

    @property
    def api_key(self) -> str | None:
        return os.environ.get(self.api_key_env_var) or None if self.api_key_env_var else None


class ModelConfig(BaseModel):
    """A model at a provider, called by its `alias`. Prices: USD per million tokens. `context_window`: tokens."""

    name: str
    provider: str
    alias: str = ""
    temperature: float = 0.2
    max_tokens: int | None = None
    context_window: int = 128_000
    input_price: float = 0.0
    output_price: float = 0.0
    auto_compact_threshold: int = 200_000

    @model_validator(mode="after")
    def _alias_is_the_name_when_absent(self) -> ModelConfig:
        self.alias = self.alias or self.name
        return self


def _default_providers() -> list[ProviderConfig]:
    return [
        ProviderConfig(
            name="mistral",
            api_base="https://api.mistral.ai/v1",
            api_key_env_var="MISTRAL_API_KEY",
            backend=Backend.MISTRAL,
        ),
        ProviderConfig(name="openai", api_base="https://api.openai.com/v1", api_key_env_var="OPENAI_API_KEY"),
        ProviderConfig(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
        ProviderConfig(name="ollama", api_base="http://127.0.0.1:11434/v1"),
    ]


def _default_models() -> list[ModelConfig]:
    return [
        ModelConfig(name="devstral-latest", provider="mistral", alias="devstral-2", input_price=0.4, output_price=2.0),
        ModelConfig(
            name="devstral-small-latest", provider="mistral", alias="devstral-small", input_price=0.1, output_price=0.3
        ),
        ModelConfig(name="devstral", provider="llamacpp", alias="local"),
        ModelConfig(name="devstral", provider="ollama", alias="ollama"),
    ]


class KinConfig(BaseModel):
    """The settings of one agent. Unknown keys are kept out without complaint: other tools share the file's ideas."""

    model_config = ConfigDict(extra="ignore", validate_default=True)

    active_model: str = "devstral-2"
    policy: str = "on-request"
    workdir: Path | None = None
    api_timeout: float = 720.0
    providers: list[ProviderConfig] = Field(default_factory=_default_providers)
    models: list[ModelConfig] = Field(default_factory=_default_models)
    tools: dict[str, BaseToolConfig] = Field(default_factory=dict)

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

    def check_api_key(self) -> None:
        """Raises MissingAPIKeyError when the active model could not be reached for want of a key."""
        provider = self.get_provider_for_model(self.get_active_model())
        if provider.api_key_env_var and not provider.api_key:
            raise MissingAPIKeyError(provider.api_key_env_var, provider.name)

    @classmethod
    def load(cls, **overrides: Any) -> KinConfig:
        """Defaults < ~/.kin-code/config.toml < KIN_* < overrides. Raises ConfigError with file and line."""
        from kin_nb.core.config_files import load_config  # noqa: PLC0415  (tomllib only when a file is read)

        return load_config(overrides)
