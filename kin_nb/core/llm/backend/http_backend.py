"""GenericBackend: send requests to any server that speaks a registered API style over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from kin_nb.core.bounded_json import read_json
from kin_nb.core.config import ConfigError, ModelConfig, ProviderConfig, Thinking
from kin_nb.core.llm.adapters.base import (
    BACKEND_ADAPTERS,
    CountsTokens,
    NeedsModel,
    PreparedRequest,
)
from kin_nb.core.llm.adapters.dialects import refuses_thinking, thinking_refused
from kin_nb.core.llm.adapters.encoding import TextView, estimated_tokens
from kin_nb.core.llm.backend.client import ProviderClient, request_headers
from kin_nb.core.llm.backend.response_reader import ResponseReader
from kin_nb.core.llm.errors import BackendError, BackendErrorBuilder, Where, duration
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.llm.retry import RetryPolicy, async_generator_retry
from kin_nb.core.llm.types import ReplyRequest
from kin_nb.core.messages import AvailableTool, BackendNotice, LLMChunk, LLMMessage, Role, StrToolChoice

if TYPE_CHECKING:
    import httpx


_ERROR_BODY = 20_000  # characters read of an error's body
_ERROR_TIME = 10.0  # seconds spent on it


class GenericBackend:
    """The connection to one provider: one HTTP client, opened by the first request and kept until `aclose`.

    `timeout`: seconds without an event after which a reply counts as lost; comments and pings do not count. Every failure is a
    BackendError. Raises ConfigError if the provider's `api_style` has no adapter. It can be used again after `aclose`.
    """

    def __init__(self, provider: ProviderConfig, timeout: float = 720.0, *, retry: RetryPolicy | None = None) -> None:
        adapter = BACKEND_ADAPTERS.get(provider.api_style)
        if adapter is None:
            known = ", ".join(sorted(BACKEND_ADAPTERS))
            raise ConfigError(f'Provider "{provider.name}": unknown api_style "{provider.api_style}". Known: {known}.')
        self._provider, self._timeout = provider, timeout
        self._adapter = adapter()
        self._wants_model = isinstance(self._adapter, NeedsModel)  # checked once: isinstance of a protocol is slow
        self._view = TextView()
        self._refused: set[tuple[str, Thinking, bool]] = set()
        """(model, thinking level, whether there were tools) of requests that succeeded only without the level."""
        self._failed_anyway: set[tuple[str, Thinking, bool]] = set()
        """The same of requests that failed also without the level: they have another problem."""
        self._reply = async_generator_retry(policy=retry, announce=_retry_notice)(self.attempt)
        self._client = ProviderClient(provider, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()

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
        """Return the whole reply, from a request without streaming."""
        reply = ResponseBuilder()
        whole = self.complete_noticing(
            model=model,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
            extra_headers=extra_headers,
        )
        async with aclosing(whole) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
        return LLMChunk(message=reply.message, usage=reply.usage, finish_reason=reply.finish_reason)

    def complete_noticing(self, **request: Unpack[ReplyRequest]) -> AsyncGenerator[LLMChunk, None]:
        """Like `complete`, but yields notices, such as of a retry, at once, before the reply."""
        return self._replies(request, streaming=False)

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
        """Yield deltas as they arrive; the last chunk has only the finish reason, and the usage if the server sends it.

        Raises IncompleteReplyError without a finish reason: then the reply is not complete.
        """
        request = ReplyRequest(
            model=model,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
            extra_headers=extra_headers,
        )
        return self._replies(request, streaming=True)

    async def _replies(self, request: ReplyRequest, *, streaming: bool) -> AsyncGenerator[LLMChunk, None]:
        """Request a reply. If the server refuses the thinking level before the reply starts, ask again without it.

        If the second request succeeds, later ones are sent without the level. If it fails with the same status, later ones are
        not repeated, until a request with the level succeeds.
        """
        model = request["model"]
        kind = (model.name, model.thinking, bool(request["tools"]))
        without = model.model_copy(update={"thinking": "off"})
        refused, started = kind in self._refused, False
        try:
            async with aclosing(self._reply_to(request, without if refused else model, streaming=streaming)) as chunks:
                async for chunk in chunks:
                    started = started or chunk.notice is None
                    yield chunk
        except BackendError as error:
            if (
                started
                or refused
                or kind in self._failed_anyway
                or model.thinking == "off"
                or not refuses_thinking(error)
            ):
                raise
            status = error.status
            notice = BackendNotice(message=thinking_refused(model, self._provider, error))
        else:
            self._failed_anyway.discard(kind)
            return
        yield _notice_chunk(notice)
        try:
            async with aclosing(self._reply_to(request, without, streaming=streaming)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except BackendError as error:
            if error.status == status:
                self._failed_anyway.add(kind)
            raise
        self._refused.add(kind)

    def _reply_to(
        self, request: ReplyRequest, model: ModelConfig, *, streaming: bool
    ) -> AsyncGenerator[LLMChunk, None]:
        prepared = self.prepare({**request, "model": model}, streaming=streaming)
        return self._reply(prepared, model.name, request["extra_headers"] or {}, streaming=streaming)

    async def count_tokens(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float = 0.0,
        tools: list[AvailableTool] | None = None,
        tool_choice: StrToolChoice | None = None,
        extra_headers: dict[str, str] | None = None,
    ) -> int:
        """Return the server's count if it can count tokens, else an estimate (seed 003). Not retried."""
        request = ReplyRequest(
            model=model,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=None,
            tool_choice=tool_choice,
            extra_headers=extra_headers,
        )
        with suppress(BackendError):
            if counted := await self.server_count(request):
                return counted
        return estimated_tokens(self.prepare(request, streaming=False).body, self._view.of(messages, model))

    async def server_count(self, request: ReplyRequest) -> int:
        """Return the prompt tokens as the server counts them, 0 if its API cannot count. Raises BackendError."""
        if not isinstance(self._adapter, CountsTokens):
            return 0
        model = request["model"]
        prepared = self._adapter.prepare_count(
            model_name=model.name,
            messages=self._view.of(request["messages"], model),
            tools=request["tools"],
            provider=self._provider,
            api_key=self._key(),
        )
        return self._adapter.parse_count(await self._ask(prepared, model.name, request["extra_headers"] or {})) or 0

    def prepare(self, request: ReplyRequest, *, streaming: bool) -> PreparedRequest:
        """Return the HTTP request in the server's API style."""
        model = request["model"]
        if self._wants_model:
            cast("NeedsModel", self._adapter).model = model
        return self._adapter.prepare_request(
            model_name=model.name,
            messages=self._view.of(request["messages"], model),
            temperature=request["temperature"],
            tools=request["tools"],
            max_tokens=request["max_tokens"],
            tool_choice=request["tool_choice"],
            enable_streaming=streaming,
            provider=self._provider,
            api_key=self._key(),
        )

    async def attempt(
        self, request: PreparedRequest, model: str, extra_headers: dict[str, str], *, streaming: bool
    ) -> AsyncGenerator[LLMChunk, None]:
        """Send one request, without retries."""
        async with self._answer(request, model, extra_headers) as (response, where):
            reader = ResponseReader(self._adapter, where, self._timeout)
            async with aclosing(reader.chunks(response, streaming=streaming)) as chunks:
                async for chunk in chunks:
                    yield chunk

    def _key(self) -> str | None:
        return (self._provider.api_key or "").strip() or None

    async def _ask(self, request: PreparedRequest, model: str, extra_headers: dict[str, str]) -> dict[str, Any]:
        """Send a request with a small JSON answer; return {} if it is not a JSON object."""
        async with self._answer(request, model, extra_headers) as (response, _):
            try:
                answer = read_json(await response.aread())
            except ValueError:
                return {}
            return answer if isinstance(answer, dict) else {}

    @asynccontextmanager
    async def _answer(
        self, request: PreparedRequest, model: str, extra_headers: dict[str, str]
    ) -> AsyncIterator[tuple[httpx.Response, Where]]:
        """Yield a successful answer. Errors of httpx, also while the answer is read, become BackendErrors."""
        import httpx  # noqa: PLC0415  (first use)

        url = self._provider.api_base.rstrip("/") + request.endpoint
        where = Where(provider=self._provider, endpoint=url, model=model)
        client = self._client.get(where)
        headers = request_headers(request.headers, extra_headers, where)
        try:
            _check_port(httpx.URL(url))
            async with client.stream("POST", url, content=request.body, headers=headers) as response:
                if not response.is_success:
                    body = await _start_of_body(response)
                    raise BackendErrorBuilder.build_http_error(**where, response=response, body=body)
                yield response, where
        except (httpx.RequestError, httpx.InvalidURL) as error:
            # `from None`: the cause can quote a header, and with it the key.
            raise BackendErrorBuilder.build_request_error(**where, error=error) from None


def _retry_notice(error: Exception, seconds: float, attempt: int, tries: int) -> LLMChunk:
    why = getattr(error, "what", str(error))
    message = f"trying again in {duration(seconds)} ({attempt} of {tries}): {why}"
    return _notice_chunk(BackendNotice(message=message, seconds=seconds, attempt=attempt, tries=tries))


def _notice_chunk(notice: BackendNotice) -> LLMChunk:
    return LLMChunk(message=LLMMessage(role=Role.assistant), notice=notice)


def _check_port(url: httpx.URL) -> None:
    """Raise InvalidURL for an invalid port: the operating system reports it late, in an exception group."""
    import httpx  # noqa: PLC0415  (first use)

    if url.port is not None and not 0 <= url.port < 65_536:  # noqa: PLR2004  (16 bits)
        raise httpx.InvalidURL(f"{url.port} is not a valid port")


async def _start_of_body(response: httpx.Response) -> str:
    """Read the start of an error's body. A body that breaks off or hangs must not hide the status."""
    import httpx  # noqa: PLC0415  (first use)

    text = ""
    with suppress(httpx.RequestError, TimeoutError):
        async with asyncio.timeout(_ERROR_TIME):
            async for piece in response.aiter_text():
                text += piece
                if len(text) > _ERROR_BODY:
                    break
    return text
