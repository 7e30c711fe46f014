"""GenericBackend: any server that speaks a registered wire format over HTTP (seed 000)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from enum import Enum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kin_nb import __version__
from kin_nb.core.config import ConfigError, ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS, APIAdapter, PreparedRequest, register_adapter
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.llm.address import is_local
from kin_nb.core.llm.backend.stream import ERROR, payloads
from kin_nb.core.llm.errors import (
    BackendErrorBuilder,
    Where,
    idle_error,
    incomplete_error,
    no_api_error,
    proxy_error,
    unusable_key_error,
)
from kin_nb.core.llm.merge import ReplyBuilder
from kin_nb.core.llm.retry import RetryPolicy, async_generator_retry
from kin_nb.core.types import AvailableTool, LLMChunk, LLMMessage, LLMUsage, Role, StrToolChoice

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["BACKEND_ADAPTERS", "APIAdapter", "GenericBackend", "OpenAIAdapter", "PreparedRequest", "register_adapter"]

_CONNECT = 15.0  # seconds
_KEEP_ALIVE = 60.0  # seconds a connection stays open between requests: a tool may run that long
_AFTER_FINISH = 5.0  # seconds that usage may come after the finish reason
_AFTER_USAGE = 0.5  # seconds that anything may come after both
_ERROR_BODY = 20_000  # characters read of an error's body
_ERROR_TIME = 10.0  # seconds spent on it


class GenericBackend:
    """One provider: one HTTP client, made at the first request and kept until `aclose`; it can be used again after.

    `timeout`: seconds without an event until a reply counts as lost (comments are no events). Every failure is a
    BackendError. Raises ConfigError at once when the provider's `api_style` has no adapter.
    """

    def __init__(self, provider: ProviderConfig, timeout: float = 720.0, *, retry: RetryPolicy | None = None) -> None:
        adapter = BACKEND_ADAPTERS.get(provider.api_style)
        if adapter is None:
            known = ", ".join(sorted(BACKEND_ADAPTERS))
            raise ConfigError(f'provider "{provider.name}": unknown api_style "{provider.api_style}". Known: {known}.')
        self._provider, self._timeout = provider, timeout
        self._adapter = adapter()
        self._reply = async_generator_retry(policy=retry)(self._attempt)
        self._ssl: ssl.SSLContext | None = None
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def complete(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None = None,
        max_tokens: int | None = None,
        tool_choice: StrToolChoice | None = None,
        extra_headers: dict[str, str] | None = None,
    ) -> LLMChunk:
        """The whole reply in one answer: a stream of one chunk, read by the same code."""
        reply = ReplyBuilder()
        request = self._prepare(
            model=model,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
            streaming=False,
        )
        async with aclosing(self._reply(request, model.name, extra_headers or {}, streaming=False)) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
        return LLMChunk(message=reply.message, usage=reply.usage, finish_reason=reply.finish_reason)

    def complete_streaming(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None = None,
        max_tokens: int | None = None,
        tool_choice: StrToolChoice | None = None,
        extra_headers: dict[str, str] | None = None,
    ) -> AsyncGenerator[LLMChunk, None]:
        """Deltas as they come; the last chunk is empty but for the finish reason and the usage, if there is one.

        Raises IncompleteReplyError when there is no finish reason: what was yielded is then no reply.
        """
        request = self._prepare(
            model=model,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
            streaming=True,
        )
        return self._reply(request, model.name, extra_headers or {}, streaming=True)

    async def count_tokens(self, **kwargs: Any) -> int:
        """An estimate from the request's size, four bytes to a token. Takes what `complete` takes (seed 003)."""
        request = self._prepare(
            model=kwargs["model"],
            messages=kwargs["messages"],
            temperature=0.0,
            tools=kwargs.get("tools"),
            max_tokens=None,
            tool_choice=None,
            streaming=False,
        )
        return len(request.body) // 4

    def _prepare(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None,
        tool_choice: StrToolChoice | None,
        streaming: bool,
    ) -> PreparedRequest:
        return self._adapter.prepare_request(
            model_name=model.name,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
            enable_streaming=streaming,
            provider=self._provider,
            api_key=(self._provider.api_key or "").strip() or None,
        )

    async def _attempt(
        self, request: PreparedRequest, model: str, extra_headers: dict[str, str], *, streaming: bool
    ) -> AsyncGenerator[LLMChunk, None]:
        import httpx  # noqa: PLC0415  (first use)

        url = self._provider.api_base.rstrip("/") + request.endpoint
        where = Where(provider=self._provider, endpoint=url, model=model)
        client = self._http(where)
        headers = self._headers(request, extra_headers, where)
        try:
            async with client.stream("POST", url, content=request.body, headers=headers) as response:
                if not response.is_success:
                    body = await _start_of_body(response)
                    raise BackendErrorBuilder.build_http_error(**where, response=response, body=body)
                async with aclosing(self._chunks(response, where, streaming=streaming)) as chunks:
                    async for chunk in chunks:
                        yield chunk
        except (httpx.RequestError, httpx.InvalidURL) as error:
            # `from None`: the cause can quote a header, and with it the key.
            raise BackendErrorBuilder.build_request_error(**where, error=error) from None

    async def _chunks(
        self, response: httpx.Response, where: Where, *, streaming: bool
    ) -> AsyncGenerator[LLMChunk, None]:
        """What the adapter reads, finish reason and usage held back until the end: only then is the reply complete."""
        if "html" in response.headers.get("content-type", ""):
            raise no_api_error(where)
        usage: LLMUsage | None = None
        finish: str | None = None
        patience = self._timeout
        async with aclosing(payloads(response, streaming=streaming)) as events:
            while True:
                data = await _next(events, patience)
                if isinstance(data, _End):
                    break
                if data.get(ERROR) or data.get("object") == ERROR:
                    raise BackendErrorBuilder.build_stream_error(**where, error=data.get(ERROR) or data)
                chunk = self._adapter.parse_response(data, self._provider)
                usage, finish = chunk.usage or usage, chunk.finish_reason or finish
                if finish is not None:
                    patience = min(self._timeout, _AFTER_USAGE if usage else _AFTER_FINISH)
                message = chunk.message
                if message.content or message.reasoning_content or message.tool_calls:
                    yield LLMChunk.model_construct(message=message, usage=None, finish_reason=None)
        if finish is None and data is _End.SILENT:
            raise idle_error(where, patience)
        if finish is None or finish == ERROR:
            raise incomplete_error(where, data.value if finish is None else "the server gave up")
        yield LLMChunk(message=LLMMessage(role=Role.assistant), usage=usage, finish_reason=finish)

    def _headers(self, request: PreparedRequest, extra: dict[str, str], where: Where) -> dict[str, str]:
        """Later ones win: ours, the adapter's, the provider's, the call's."""
        merged = {"user-agent": f"kin_nb/{__version__}"}
        for headers in (request.headers, self._provider.extra_headers, extra):
            merged.update({name.lower(): value for name, value in headers.items()})
        key = merged.get("authorization", "")
        if not (key.isascii() and key.isprintable()):
            raise unusable_key_error(where)
        return merged

    def _http(self, where: Where) -> httpx.AsyncClient:
        """The client; a new one when the event loop is another, because connections belong to a loop."""
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return self._client
        import httpx  # noqa: PLC0415  (first use)

        local = is_local(self._provider.api_base)
        if self._ssl is None:
            self._ssl = _ssl_context(needed=not local or self._provider.api_base.startswith("https"))
        make = partial(
            httpx.AsyncClient,
            verify=self._ssl,
            trust_env=not local,  # a proxy cannot reach this machine's loopback
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, _CONNECT)),
            limits=httpx.Limits(max_connections=10, max_keepalive_connections=5, keepalive_expiry=_KEEP_ALIVE),
        )
        try:
            self._client, self._loop = make(), loop
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise proxy_error(where, error) from None
        return self._client


def _ssl_context(*, needed: bool) -> ssl.SSLContext:
    """Loading the certificates takes 60 ms; plain HTTP gets a context that trusts nobody."""
    import ssl  # noqa: PLC0415  (first use)

    import httpx  # noqa: PLC0415  (first use)

    return httpx.create_ssl_context() if needed else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _End(Enum):
    """How the events came to their end, in words for the person."""

    CLOSED = "the connection closed"
    BROKEN = "the connection broke"
    GARBLED = "what came was not JSON"
    SILENT = "nothing came"


async def _next(events: AsyncGenerator[dict[str, Any], None], patience: float) -> dict[str, Any] | _End:
    """The next payload within `patience` seconds. How bad an end is depends on what came before: no exception here."""
    import httpx  # noqa: PLC0415  (first use)

    try:
        async with asyncio.timeout(patience):
            return await anext(events)
    except StopAsyncIteration:
        return _End.CLOSED
    except (TimeoutError, httpx.ReadTimeout):
        return _End.SILENT
    except httpx.RequestError:
        return _End.BROKEN
    except (ValueError, RecursionError):
        return _End.GARBLED


async def _start_of_body(response: httpx.Response) -> str:
    """Enough of an error's body to say what it says; a body that breaks off or hangs does not hide the status."""
    import httpx  # noqa: PLC0415  (first use)

    text = ""
    with suppress(httpx.RequestError, TimeoutError):
        async with asyncio.timeout(_ERROR_TIME):
            async for piece in response.aiter_text():
                text += piece
                if len(text) > _ERROR_BODY:
                    break
    return text
