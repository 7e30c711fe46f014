"""What the agent asks of any model server (seed 002)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Protocol, TypedDict, Unpack, runtime_checkable

from kin_nb.core.config import ModelConfig
from kin_nb.core.messages import AvailableTool, LLMChunk, LLMMessage, StrToolChoice


class ReplyRequest(TypedDict):
    """What `BackendLike.complete` is called with."""

    model: ModelConfig
    messages: list[LLMMessage]
    temperature: float
    tools: list[AvailableTool] | None
    max_tokens: int | None
    tool_choice: StrToolChoice | None
    extra_headers: dict[str, str] | None


@runtime_checkable
class GivesNotice(Protocol):
    """A backend that tells what it does about failed requests, also where the reply comes as a whole."""

    def complete_noticing(self, **request: Unpack[ReplyRequest]) -> AsyncGenerator[LLMChunk]: ...


class BackendLike(Protocol):
    """A model server. A reply is complete when the generator ends without raising."""

    async def __aenter__(self) -> BackendLike: ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None: ...

    async def complete(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None,
        tool_choice: StrToolChoice | None,
        extra_headers: dict[str, str] | None,
    ) -> LLMChunk: ...

    def complete_streaming(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None,
        tool_choice: StrToolChoice | None,
        extra_headers: dict[str, str] | None,
    ) -> AsyncGenerator[LLMChunk]: ...

    async def count_tokens(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        tool_choice: StrToolChoice | None,
        extra_headers: dict[str, str] | None,
    ) -> int: ...
