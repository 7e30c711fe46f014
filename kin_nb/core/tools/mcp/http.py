"""A server over streamable HTTP. Importing this module imports `mcp`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from kin_nb.core.config.mcp_servers import MCPHttp
from kin_nb.core.llm.address import is_local, shown
from kin_nb.core.tools.mcp.errors import ServerFailed

MESSAGE_LIMIT = 64_000_000
"""Bytes of one message."""
_LONGEST_SILENCE = 300.0
"""Seconds without a byte on a response that is open. Each call has its own, shorter limit."""


class HttpLink:
    """One session over HTTP. Redirects stay on the server's own origin: the `mcp` package sees to that."""

    def __init__(self, server: MCPHttp) -> None:
        self._server = server
        self._status = 0
        """Of the last POST that was refused."""

    @property
    def lost(self) -> bool:
        """The server does not know the session any more."""
        return self._status == httpx2.codes.NOT_FOUND

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[tuple[Any, Any]]:
        """Streams of messages in and out. Raises ServerFailed, and groups of what httpx2 raises."""
        url = self._server.url
        silence = max(_LONGEST_SILENCE, self._server.tool_timeout_sec)
        try:
            client = httpx2.AsyncClient(
                headers={"accept-encoding": "identity", **self._server.http_headers()},
                timeout=httpx2.Timeout(self._server.startup_timeout_sec, read=silence),
                trust_env=not is_local(url),  # the environment's proxy is no way to this machine
                event_hooks={"response": [self._arrived]},
            )
        except ValueError as error:
            raise ServerFailed(f"its headers cannot be sent ({error}); check headers and api_key_env") from error
        async with client, streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_LIMIT) as streams:
            yield streams

    def explain(self, error: Exception | None) -> str:
        """Why it ended or did not start, in a line. Neither headers nor a query are in it."""
        where = shown(self._server.url)
        if isinstance(error, (httpx2.ConnectError, httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
            return f"{where} cannot be reached ({error}); check its url, and whether it runs"
        return "" if error is None else f"{where}: {self.said(error)}"

    def said(self, error: Exception) -> str:
        """What an error answer says, or what went wrong instead of one."""
        if self._status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}:
            key = self._server.api_key_env
            todo = (
                f"check the key in the variable {key}" if key else "name the variable that holds its key: api_key_env"
            )
            return f"the key is refused (HTTP {self._status}); {todo}"
        text = str(error) if isinstance(error, (ServerFailed, MCPError)) else f"{type(error).__name__}: {error}"
        return f"HTTP {self._status}: {text}; check its url" if self._status else text

    async def _arrived(self, response: httpx2.Response) -> None:
        if response.request.method == "POST":
            self._status = response.status_code if response.is_error else 0
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ServerFailed("it compresses its answers, though asked not to")
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream) and not response.headers.get("content-type", "").startswith(
            "text/event-stream"
        ):
            response.stream = _Limited(stream)


class _Limited(httpx2.AsyncByteStream):
    """A body of at most MESSAGE_LIMIT bytes; the `mcp` package limits the events of a stream itself."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MESSAGE_LIMIT:
                raise httpx2.StreamError(f"the answer has more than {MESSAGE_LIMIT:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
