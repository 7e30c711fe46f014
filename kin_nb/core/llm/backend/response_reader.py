"""ResponseReader: read one answer of a server to its end. Only there is it known whether it is a whole reply.

Three layers: the body as JSON objects, a time limit for the next one, and the reply that they make.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from kin_nb.core.bounded_json import read_json
from kin_nb.core.llm.adapters.base import APIAdapter
from kin_nb.core.llm.adapters.encoding import Destination
from kin_nb.core.llm.errors import BackendErrorBuilder, Where, idle_error, incomplete_error, no_api_error, refused_error
from kin_nb.core.llm.response_builder import merge_usage
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role, ToolCall
from kin_nb.core.records import CallOrigin

if TYPE_CHECKING:
    import httpx


ERROR = "error"  # the key of a payload that represents `event: error`
_DRAIN = 0.5  # seconds that [DONE] may be followed by silence; a body read to its end leaves the connection usable


async def payloads(response: httpx.Response, *, streaming: bool) -> AsyncGenerator[dict[str, Any], None]:
    """Yield each JSON object of the answer, until `[DONE]`, Anthropic's `message_stop` or the end.

    Comments, pings, empty events and other JSON values are skipped. Raises ValueError for what is not JSON, and
    httpx's errors. A server that answers a streaming request with one JSON text gives one payload.
    """
    kind = response.headers.get("content-type", "")
    if "json" in kind or not (streaming or "event-stream" in kind):
        whole = read_json(await response.aread())
        if isinstance(whole, dict):
            yield whole
        return
    import httpx  # noqa: PLC0415  (first use)
    import httpx_sse  # noqa: PLC0415  (first use)

    source = httpx_sse.EventSource(cast("httpx.Response", _Events(response)))
    async with aclosing(source.aiter_sse()) as events:
        async for event in events:
            data = event.data
            if data == "[DONE]" or event.event == "message_stop":
                with suppress(httpx.RequestError, TimeoutError):
                    async with asyncio.timeout(_DRAIN):
                        await anext(events, None)
                return
            if event.event == "ping" or not data.strip():
                continue
            if event.event == ERROR:
                yield {ERROR: _json_or_text(data)}
                continue
            payload = read_json(data)
            if isinstance(payload, dict):
                yield payload


class _Events:
    """A response whose text is an event stream in UTF-8 (HTML standard, 9.2), whatever its content type says.

    The blank line at the end gives the last event to a stream that closes without one; if it was cut, its JSON says so.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.headers = {"content-type": "text/event-stream"}

    async def aiter_text(self) -> AsyncIterator[str]:
        self._response.encoding = "utf-8"
        async for text in self._response.aiter_text():
            yield text
        yield "\n\n"


def _json_or_text(data: str) -> Any:
    try:
        return read_json(data)
    except ValueError:
        return data


class StreamEnd(Enum):
    """How the events came to their end, in words for the person."""

    CLOSED = "the connection closed"
    BROKEN = "the connection broke"
    GARBLED = "what came was not JSON"
    SILENT = "nothing came"


class IdleTimeout:
    """Waits in the task that calls `next`. The timer looks when it fires whether the wait that it was set for is over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._deadline = 0.0
        self._expired = False

    async def next(self, events: AsyncGenerator[dict[str, Any], None], seconds: float) -> dict[str, Any] | StreamEnd:
        """The next payload, or why there is none. How bad an end is depends on what came before: no exception here."""
        import httpx  # noqa: PLC0415  (first use)

        try:
            return await self._within(events, seconds)
        except StopAsyncIteration:
            return StreamEnd.CLOSED
        except (TimeoutError, httpx.ReadTimeout):
            return StreamEnd.SILENT
        except httpx.RequestError:
            return StreamEnd.BROKEN
        except ValueError:
            return StreamEnd.GARBLED

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _within(self, events: AsyncGenerator[dict[str, Any], None], seconds: float) -> dict[str, Any]:
        """Wait for the next event. On timeout, undo the cancellation and raise TimeoutError, as asyncio.timeout does."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine runs in a task)
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()
        cancelled_before = task.cancelling()
        self._waiting, self._expired = task, False
        try:
            return await anext(events)
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None

    def _set_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiting is None:
            return  # the next wait sets it again
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._expired = True
            self._waiting.cancel()


REFUSED = "content_filter"  # the finish reason of a reply that the model or its server declined to give
_AFTER_FINISH = 5.0  # seconds that usage may come after the finish reason
_AFTER_USAGE = 0.5  # seconds that anything may come after both


class ResponseReader:
    """Finish reason and usage are held back until the answer has ended. `timeout`: seconds without an event."""

    def __init__(self, adapter: APIAdapter, where: Where, timeout: float) -> None:
        self._adapter, self._where, self._timeout = adapter, where, timeout
        self._origin = CallOrigin(**Destination.of(where["provider"], where["model"])._asdict())
        self._usage: LLMUsage | None = None
        self._finish: str | None = None
        self._said_something = False

    async def chunks(self, response: httpx.Response, *, streaming: bool) -> AsyncGenerator[LLMChunk, None]:
        if "html" in response.headers.get("content-type", ""):
            raise no_api_error(self._where)
        idle_timeout = IdleTimeout()
        async with aclosing(payloads(response, streaming=streaming)) as events:
            try:
                while not isinstance(data := await idle_timeout.next(events, self._seconds), StreamEnd):
                    if data.get(ERROR) or data.get("object") == ERROR:
                        raise BackendErrorBuilder.build_stream_error(**self._where, error=data.get(ERROR) or data)
                    chunk = self._adapter.parse_response(data, self._where["provider"])
                    self._usage = merge_usage(self._usage, chunk.usage)
                    self._finish = chunk.finish_reason or self._finish
                    message = chunk.message
                    self._sign(message.tool_calls or ())
                    says = (
                        message.content or message.reasoning_content or message.tool_calls or message.reasoning_blocks
                    )
                    self._said_something = self._said_something or bool(says)
                    if message.origin is not None:
                        message = message.changed(
                            origin=self._origin.model_copy(update={"fields": message.origin.fields})
                        )
                        chunk = LLMChunk.model_construct(message=message, usage=None, finish_reason=None)
                    if says or message.origin is not None:
                        if chunk.usage or chunk.finish_reason:
                            chunk = LLMChunk.model_construct(message=message, usage=None, finish_reason=None)
                        yield chunk
            finally:
                idle_timeout.close()
        yield self._last(data)

    @property
    def _seconds(self) -> float:
        if self._finish is None:
            return self._timeout
        return min(self._timeout, _AFTER_USAGE if self._usage else _AFTER_FINISH)

    def _sign(self, calls: Iterable[ToolCall]) -> None:
        """Note whose calls these are, with the first delta of each and with those that bring fields."""
        for call in calls:
            if call.origin is not None and call.origin.fields:
                call.origin = self._origin.model_copy(update={"fields": call.origin.fields})
            elif call.id:
                call.origin = self._origin

    def _last(self, end: StreamEnd) -> LLMChunk:
        """The chunk that says that the reply is complete. Raises when it is not."""
        finish, where = self._finish, self._where
        if finish is None and end is StreamEnd.CLOSED and self._said_something and not self._says_when_complete:
            finish = "stop"
        if finish is None and end is StreamEnd.SILENT:
            raise idle_error(where, self._timeout)
        if finish is None or finish == ERROR:
            raise incomplete_error(where, end.value if finish is None else "the server gave up")
        if finish == REFUSED and not self._said_something:
            raise refused_error(where)
        return LLMChunk(message=LLMMessage(role=Role.assistant), usage=self._usage, finish_reason=finish)

    @property
    def _says_when_complete(self) -> bool:
        return getattr(self._adapter, "says_when_complete", False)
