"""Model servers and models, as values, and the ready entries that every configuration starts with."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from kin_nb.core.config.keys import find_key

Thinking = Literal["off", "low", "medium", "high", "max"]


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
        """Looked up each time: a key that was just set is seen without a restart."""
        return find_key(self.api_key_env_var)


class PricingInfo(BaseModel):
    """USD per million tokens (seed 003)."""

    input_price: float = 0.0
    output_price: float = 0.0


class ModelConfig(BaseModel):
    """A model at a provider, called by its `alias`. Prices: USD per million tokens. `context_window`: tokens.

    `auto_compact_threshold`: tokens; None takes the configuration's, 0 leaves only the window's own limit.
    """

    name: str
    provider: str
    alias: str = ""
    temperature: float = 0.2
    max_tokens: int | None = None
    context_window: int = 128_000
    input_price: float = 0.0
    output_price: float = 0.0
    auto_compact_threshold: int | None = None
    supports_images: bool = False
    thinking: Thinking = "off"

    @model_validator(mode="after")
    def _alias_is_the_name_when_absent(self) -> ModelConfig:
        self.alias = self.alias or self.name
        return self

    @property
    def pricing(self) -> PricingInfo:
        return PricingInfo(input_price=self.input_price, output_price=self.output_price)


def default_providers() -> list[ProviderConfig]:
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


def default_models() -> list[ModelConfig]:
    return [
        ModelConfig(name="devstral-latest", provider="mistral", alias="devstral-2", input_price=0.4, output_price=2.0),
        ModelConfig(
            name="devstral-small-latest", provider="mistral", alias="devstral-small", input_price=0.1, output_price=0.3
        ),
        ModelConfig(name="devstral", provider="llamacpp", alias="local"),
        ModelConfig(name="devstral", provider="ollama", alias="ollama"),
    ]
