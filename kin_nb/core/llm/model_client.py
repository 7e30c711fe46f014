"""ModelClient: requests to the model as the agent makes them, through the backend that answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.llm.adapters.dialects import thinking_warnings
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.llm.types import BackendLike, GivesNotice
from kin_nb.core.messages import AvailableTool, BackendNotice, LLMChunk, LLMMessage, StrToolChoice


class BackendPool:
    """So that a change of model, or of anything but the provider's settings, keeps the connection."""

    def __init__(self) -> None:
        self._backends: dict[str, BackendLike] = {}

    def for_active_model(self, config: KinConfig) -> BackendLike:
        """Raises ConfigError when the active model or its provider cannot be used."""
        provider = config.get_provider_for_model(config.get_active_model())
        key = f"{config.api_timeout} {provider.model_dump_json()}"
        if key not in self._backends:
            from kin_nb.core.llm.backend.generic import BACKEND_FACTORY  # noqa: PLC0415  (httpx on first use)

            self._backends[key] = BACKEND_FACTORY[provider.backend](provider, config.api_timeout)
        return self._backends[key]

    async def aclose(self) -> None:
        """Close the clients. The next request opens new ones."""
        for backend in self._backends.values():
            await backend.__aexit__(None, None, None)
        self._backends.clear()


NOTICES: ContextVar[Callable[[BackendNotice], None] | None] = ContextVar("NOTICES", default=None)
"""Who hears what a backend does about the failed requests of `ModelClient.text`."""


class ModelClient:
    """`given` answers when there is one, else the active model's provider. `streaming`: replies come in pieces.

    `given` is entered before its first request and left by `aclose`: it may open in `__aenter__` what it needs (seed 000).
    """

    def __init__(self, given: BackendLike | None, *, streaming: bool) -> None:
        self.given, self.streaming = given, streaming
        self._entered: tuple[BackendLike, BackendLike] | None = None  # what was given, and what entering it gave
        self._pool = BackendPool()

    def backend(self, config: KinConfig) -> BackendLike:
        """Raises ConfigError when the active model or its provider cannot be used."""
        return self.given or self._pool.for_active_model(config)

    def warnings(self, config: KinConfig) -> list[str]:
        """What the active model will not do of what its settings say; nothing of a backend that was given."""
        return thinking_warnings(config, [config.get_active_model()]) if self.given is None else []

    async def chunks(
        self,
        config: KinConfig,
        messages: list[LLMMessage],
        tools: list[AvailableTool],
        session_id: str,
        *,
        calls: bool = True,
    ) -> AsyncGenerator[LLMChunk, None]:
        """Yield the reply, streamed or as one chunk. `calls`: False forbids tool calls."""
        backend, request = await self._open(config), _request(config, self._with_notes(messages), tools, session_id)
        if not calls and tools:
            request["tool_choice"] = "none"
        if not self.streaming and not isinstance(backend, GivesNotice):
            yield await backend.complete(**request)
            return
        ask = backend.complete_streaming
        if not self.streaming and isinstance(backend, GivesNotice):
            ask = backend.complete_noticing
        async with aclosing(ask(**request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def text(
        self, config: KinConfig, messages: list[LLMMessage], tools: list[AvailableTool], session_id: str
    ) -> LLMChunk:
        """A reply in words. The tools go along, so that the request begins as the others do (prompt caches)."""
        request = _request(config, self._with_notes(messages), tools, session_id)
        request["tool_choice"] = "none" if tools else None
        backend, tell = await self._open(config), NOTICES.get()
        if tell is None or not isinstance(backend, GivesNotice):
            return await backend.complete(**request)
        reply = ResponseBuilder()
        async with aclosing(backend.complete_noticing(**request)) as chunks:
            async for chunk in chunks:
                if chunk.notice is not None:
                    tell(chunk.notice)
                reply.add(chunk)
        return LLMChunk(message=reply.message, usage=reply.usage, finish_reason=reply.finish_reason)

    async def count_tokens(
        self, config: KinConfig, messages: list[LLMMessage], tools: list[AvailableTool], session_id: str
    ) -> int:
        """Return the size of `messages`: an estimate if the server cannot count."""
        request = _request(config, self._with_notes(messages), tools, session_id)
        del request["max_tokens"]
        try:
            return await (await self._open(config)).count_tokens(**request)
        except BackendError:
            return sum(len(message.content or "") for message in messages) // 4

    def _with_notes(self, messages: list[LLMMessage]) -> list[LLMMessage]:
        """Return the messages for a backend that was given, which reads `content`: ours add the notes as they encode."""
        return messages if self.given is None else [message.with_note() for message in messages]

    async def aclose(self) -> None:
        await self._leave()
        await self._pool.aclose()

    async def _open(self, config: KinConfig) -> BackendLike:
        if self.given is None:
            return self.backend(config)
        if self._entered is None or self._entered[0] is not self.given:
            await self._leave()
            self._entered = (self.given, await self.given.__aenter__())
        return self._entered[1]

    async def _leave(self) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            await entered[0].__aexit__(None, None, None)


def _request(
    config: KinConfig, messages: list[LLMMessage], tools: list[AvailableTool], session_id: str
) -> dict[str, Any]:
    model = config.get_active_model()
    choice: StrToolChoice | None = "auto" if tools else None
    return {
        "model": model,
        "messages": messages,
        "temperature": model.temperature,
        "tools": tools,
        "max_tokens": model.max_tokens,
        "tool_choice": choice,
        "extra_headers": {"x-affinity": session_id},
    }
