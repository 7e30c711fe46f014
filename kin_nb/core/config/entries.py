"""Providers, models and MCP servers as values, and the built-in entries of every configuration.

core.tools.mcp connects to the servers.
"""

from __future__ import annotations

import re
import shlex
from enum import StrEnum, auto
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from kin_nb.core.config.keys import find_key

Thinking = Literal["off", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks. A server that does not support a level gets the next higher one, else its highest."""
ThinkingField = Literal[
    "", "reasoning_effort", "reasoning", "chat_template_kwargs", "enable_thinking", "thinking", "none"
]


class Backend(StrEnum):
    GENERIC = auto()
    MISTRAL = auto()


class ProviderConfig(BaseModel):
    """A model server. An empty `api_key_env_var` means no key.

    `api_base` ends before `/chat/completions`, for anthropic before `/messages`. `api_style`: openai, mistral, anthropic, or a
    custom adapter (core.llm.adapters.base).
    """

    name: str
    api_base: str
    api_key_env_var: str = ""
    api_style: str = "openai"
    backend: Backend = Backend.GENERIC
    reasoning_field_name: str = "reasoning_content"
    thinking_field: ThinkingField = ""
    """The request field for the thinking level, for api_style openai; "": chosen by the server's address."""
    extra_headers: dict[str, str] = Field(
        default_factory=dict, validation_alias=AliasChoices("extra_headers", "custom_headers")
    )
    """Sent with each request; `custom_headers` means the same (seed 001)."""

    @model_validator(mode="before")
    @classmethod
    def _one_name_for_the_headers(cls, values: Any) -> Any:
        if isinstance(values, dict) and {"extra_headers", "custom_headers"} <= values.keys():
            raise ValueError("extra_headers and custom_headers are the same setting; keep only one")
        return values

    @property
    def api_key(self) -> str | None:
        """The key; looked up each time, so that a new key is used without a restart."""
        return find_key(self.api_key_env_var)


class PricingInfo(BaseModel):
    """USD per million tokens (seed 003)."""

    model_config = ConfigDict(extra="forbid")

    input_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    output_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ModelConfig(BaseModel):
    """A model of a provider. `alias`: the name that users type; default: `name`.

    Prices are USD per million tokens; `pricing`, a PricingInfo or a table with its fields, overrides them. `context_window`:
    tokens. `auto_compact_threshold`: tokens; None uses the configuration's, 0 only the limit of the context window.
    """

    name: str
    provider: str
    alias: str = ""
    temperature: float = Field(default=0.2, ge=0, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, gt=0)
    context_window: int = Field(default=128_000, gt=0)
    input_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    output_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    auto_compact_threshold: int | None = Field(default=None, ge=0)
    supports_images: bool = False
    thinking: Thinking = "off"

    @model_validator(mode="before")
    @classmethod
    def _prices_may_be_one_value(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "pricing" not in values:
            return values
        given = values["pricing"]
        if isinstance(given, dict) and (unknown := given.keys() - PricingInfo.model_fields.keys()):
            raise ValueError(f"pricing has input_price and output_price, not {', '.join(sorted(map(str, unknown)))}")
        rest = {key: value for key, value in values.items() if key != "pricing"}
        return rest | PricingInfo.model_validate(given).model_dump(exclude_unset=True)

    @field_validator("thinking", mode="before")
    @classmethod
    def _thinking_may_be_yes_or_no(cls, level: Any) -> Any:
        return ("high" if level else "off") if isinstance(level, bool) else level

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
        ProviderConfig(
            name="anthropic",
            api_base="https://api.anthropic.com/v1",
            api_key_env_var="ANTHROPIC_API_KEY",
            api_style="anthropic",
        ),
        ProviderConfig(
            name="openrouter",
            api_base="https://openrouter.ai/api/v1",
            api_key_env_var="OPENROUTER_API_KEY",
            reasoning_field_name="reasoning",
        ),
        ProviderConfig(name="moonshot", api_base="https://api.moonshot.ai/v1", api_key_env_var="MOONSHOT_API_KEY"),
        ProviderConfig(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
        ProviderConfig(name="ollama", api_base="http://127.0.0.1:11434/v1"),
    ]


def default_models() -> list[ModelConfig]:
    """As published in November 2026; no price where it depends on the prompt's length or is not known."""
    return [
        _model("devstral-latest", "mistral", "devstral-2", 256_000, prices=(0.4, 2.0)),
        _model("devstral-small-latest", "mistral", "devstral-small", 256_000, prices=(0.1, 0.3)),
        ModelConfig(name="devstral", provider="llamacpp", alias="local"),
        ModelConfig(name="devstral", provider="ollama", alias="ollama"),
        _model("mistral-medium-3-5", "mistral", "mistral-medium", 256_000, prices=(1.5, 7.5), images=True),
        _model("gpt-5.6-terra", "openai", "gpt-terra", 1_000_000, prices=(2.0, 12.0), images=True),
        _model("gpt-5.6-luna", "openai", "gpt-luna", 1_000_000, prices=(0.2, 1.2), images=True),
        _model("claude-opus-5-5", "anthropic", "opus", 1_000_000, prices=(4.0, 20.0), images=True),
        _model("claude-sonnet-5-5", "anthropic", "sonnet", 1_000_000, prices=(2.0, 10.0), images=True),
        _model("claude-haiku-5-5", "anthropic", "haiku", 1_000_000, images=True),
        _model("openai/gpt-6.1-sol", "openrouter", "gpt-sol", 1_050_000, prices=(2.0, 10.0), images=True),
        _model("kimi-k3.1-pro", "moonshot", "kimi", 1_048_576, prices=(2.0, 10.0), images=True),
    ]


def _model(
    name: str,
    provider: str,
    alias: str,
    window: int,
    *,
    prices: tuple[float, float] = (0.0, 0.0),
    images: bool = False,
) -> ModelConfig:
    return ModelConfig(
        name=name,
        provider=provider,
        alias=alias,
        context_window=window,
        input_price=prices[0],
        output_price=prices[1],
        supports_images=images,
    )


def usable_name(name: str) -> str:
    """Return `name` with only what providers allow in tool names: letters, digits, `_` and `-`; it may be empty."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name).strip("_-")[:64]


class _MCPBase(BaseModel):
    """Settings of every MCP server. Times are seconds. `prompt`: a hint for the model, added to each tool's description."""

    name: str
    prompt: str | None = None
    startup_timeout_sec: float = Field(default=10.0, gt=0)
    tool_timeout_sec: float = Field(default=60.0, gt=0)
    disabled: bool = False
    disabled_tools: list[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _usable_in_a_tool_name(cls, name: str) -> str:
        if not usable_name(name):
            raise ValueError(f"{name!r} must contain a letter or digit")
        return usable_name(name)


class MCPHttp(_MCPBase):
    """A server over HTTP. In `api_key_format`, `{token}` is replaced by the key in the variable `api_key_env`."""

    transport: Literal["http"] = "http"
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    api_key_env: str = ""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"

    def http_headers(self) -> dict[str, str]:
        key = find_key(self.api_key_env)
        named = {name.lower() for name in self.headers}
        if key and self.api_key_header.lower() not in named:
            return {**self.headers, self.api_key_header: self.api_key_format.replace("{token}", key)}
        return dict(self.headers)


class MCPStreamableHttp(MCPHttp):
    """Another name of `http`: both mean MCP's streamable HTTP."""

    transport: Literal["streamable-http"] = "streamable-http"  # type: ignore[assignment]


class MCPStdio(_MCPBase):
    """A program that is started, with stdio as transport. `command`: a shell-like line, or a list of words.

    It gets a few variables of this process (core.safety.secrets.server_environment), those that `env_vars` names, and those that
    `env` sets.
    """

    transport: Literal["stdio"] = "stdio"
    command: str | list[str]
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    env_vars: list[str] = Field(default_factory=list)
    cwd: Path | None = None

    def argv(self) -> list[str]:
        """Return the command as words. Raises ValueError if it is empty or has unbalanced quotes."""
        words = shlex.split(self.command) if isinstance(self.command, str) else list(self.command)
        if not words:
            raise ValueError("the command is empty")
        return [*words, *self.args]


MCPServer = Annotated[MCPHttp | MCPStreamableHttp | MCPStdio, Field(discriminator="transport")]


def parse_server(raw: Any) -> Any:
    """Add a missing `transport`: stdio for an entry with a command, else streamable HTTP."""
    if isinstance(raw, dict) and "transport" not in raw:
        return {**raw, "transport": "stdio" if "command" in raw else "streamable-http"}
    return raw
