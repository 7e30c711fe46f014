"""What a wire format must do, and where formats are registered (seed 000, "Custom API Adapters")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.messages import AvailableTool, LLMChunk, LLMMessage, StrToolChoice


@dataclass(frozen=True)
class PreparedRequest:
    """A request ready to send. `endpoint` is appended to the provider's `api_base`; `body` is JSON."""

    endpoint: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class APIAdapter(Protocol):
    """One instance serves all replies of a backend, also at the same time: what it keeps must not belong to a reply.

    `says_when_complete`: the format's replies say why they ended. A reply that does not is then a cut one, and none
    of its tools run; without it, a reply is complete when the answer ends as HTTP says it should.
    """

    endpoint: ClassVar[str]
    says_when_complete: ClassVar[bool] = False

    def prepare_request(
        self,
        *,
        model_name: str,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None = None,
        tool_choice: StrToolChoice | None,
        enable_streaming: bool,
        provider: ProviderConfig,
        api_key: str | None = None,
    ) -> PreparedRequest: ...

    def parse_response(self, data: dict[str, Any], provider: ProviderConfig) -> LLMChunk:
        """One event of a stream, or a whole reply. Tolerates absent and null fields; never raises on them."""
        ...


@runtime_checkable
class NeedsModel(Protocol):
    """An adapter that needs more of the model than its name: set before each `prepare_request`."""

    model: ModelConfig | None


@runtime_checkable
class CountsTokens(Protocol):
    """An adapter whose servers count the tokens of a request without answering it."""

    def prepare_count(
        self,
        *,
        model_name: str,
        messages: list[LLMMessage],
        tools: list[AvailableTool] | None,
        provider: ProviderConfig,
        api_key: str | None = None,
    ) -> PreparedRequest: ...

    def parse_count(self, data: dict[str, Any]) -> int | None: ...


BACKEND_ADAPTERS: dict[str, type[APIAdapter]] = {}
"""Adapters by `api_style`; a backend makes its own instance."""

A = TypeVar("A", bound=type[APIAdapter])


def register_adapter(adapters: dict[str, type[APIAdapter]], name: str) -> Callable[[A], A]:
    """Class decorator: `api_style = name` in the configuration then means this adapter."""

    def register(adapter: A) -> A:
        adapters[name] = adapter
        return adapter

    return register
