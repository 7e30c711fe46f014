"""What a wire format must do, and where formats are registered (seed 000, "Custom API Adapters")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from kin_nb.core.config import ProviderConfig
from kin_nb.core.types import AvailableTool, LLMChunk, LLMMessage, StrToolChoice


@dataclass(frozen=True)
class PreparedRequest:
    """A request ready to send. `endpoint` is appended to the provider's `api_base`; `body` is JSON."""

    endpoint: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class APIAdapter(Protocol):
    endpoint: ClassVar[str]

    def prepare_request(
        self,
        *,
        model_name: str,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None,
        tool_choice: StrToolChoice | None,
        enable_streaming: bool,
        provider: ProviderConfig,
        api_key: str | None = None,
    ) -> PreparedRequest: ...

    def parse_response(self, data: dict[str, Any], provider: ProviderConfig) -> LLMChunk:
        """One event of a stream, or a whole reply. Tolerates absent and null fields; never raises on them."""
        ...


BACKEND_ADAPTERS: dict[str, type[APIAdapter]] = {}
"""Adapters by `api_style`; a backend makes its own instance."""

A = TypeVar("A", bound=type[APIAdapter])


def register_adapter(adapters: dict[str, type[APIAdapter]], name: str) -> Callable[[A], A]:
    """Class decorator: `api_style = name` in the configuration then means this adapter."""

    def register(adapter: A) -> A:
        adapters[name] = adapter
        return adapter

    return register
