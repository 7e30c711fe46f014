"""The body of an answer as JSON objects: server-sent events, or one JSON text, from the same generator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, cast

from kin_nb.core.bounded_json import read_json

if TYPE_CHECKING:
    import httpx

ERROR = "error"  # the key of a payload that stands for `event: error`
_DRAIN = 0.5  # seconds that [DONE] may be followed by silence; a body read to its end leaves the connection usable


async def payloads(response: httpx.Response, *, streaming: bool) -> AsyncGenerator[dict[str, Any], None]:
    """Each JSON object of the answer, until `[DONE]`, Anthropic's `message_stop` or the end.

    Comments, pings, empty events and JSON that is no object are passed over. Raises ValueError for what is not JSON, and
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
