"""A server over streamable HTTP. Importing this module imports `mcp`."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from kin_nb.core.config.entries import MCPHttp
from kin_nb.core.llm.errors import certificates_problem
from kin_nb.core.tools.mcp.answers import ServerFailed, not_understood, printable
from kin_nb.core.urls import is_local, shown

MESSAGE_LIMIT = 64_000_000
"""Bytes of one message."""
_LONGEST_SILENCE = 300.0
"""Seconds without a byte on a response that is open. Each call has its own, shorter limit."""


class HttpLink:
    """One session over HTTP. Redirects stay on the server's own origin: the `mcp` package sees to that."""

    def __init__(self, server: MCPHttp) -> None:
        self._server = server
        self._response: httpx2.Response | None = None
        """To the last POST, if it was an error or a redirect."""

    @property
    def lost(self) -> bool:
        """The server does not know the session any more."""
        return self._response is not None and self._response.status_code == httpx2.codes.NOT_FOUND

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[tuple[Any, Any]]:
        """Streams of messages in and out. Raises ServerFailed, and groups of what httpx2 raises."""
        url = self._server.url
        silence = max(_LONGEST_SILENCE, self._server.tool_timeout_sec)
        if url.startswith("https:"):
            _check_certificates()
        local = is_local(url)  # the environment's proxy is not used for this machine, but SSL_CERT_FILE is
        try:
            client = httpx2.AsyncClient(
                headers={"accept-encoding": "identity", **self._server.http_headers()},
                timeout=httpx2.Timeout(self._server.startup_timeout_sec, read=silence),
                trust_env=not local,
                verify=ssl.create_default_context() if local else True,
                event_hooks={"response": [self._arrived]},
            )
        except ValueError as error:
            raise ServerFailed(f"its headers cannot be sent ({error}); check headers and api_key_env") from error
        except ImportError as error:
            raise ServerFailed(
                "the environment's proxy cannot be used: SOCKS needs `pip install httpx2[socks]`. Correct HTTPS_PROXY, "
                "HTTP_PROXY or ALL_PROXY"
            ) from error
        except OSError as error:
            raise ServerFailed(f"{certificates_problem(error)}. Correct or remove that variable") from error
        async with client, streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_LIMIT) as streams:
            yield streams

    def explain(self, error: Exception | None) -> str:
        """Explain in one line, without headers or a query, why the connection ended or did not start."""
        where = shown(self._server.url)
        if isinstance(error, (httpx2.ConnectError, httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
            return f"{where} cannot be reached ({_connection(str(error))}"
        return "" if error is None else f"{where}: {self.said(error)}"

    def said(self, error: Exception) -> str:
        """What an error answer says, or what went wrong instead of one, and what to do."""
        if isinstance(error, ServerFailed):
            return str(error)
        if isinstance(error, ValidationError):
            return f"{not_understood(error)}. {_CHECK_URL}"
        if isinstance(error, MCPError):
            return self._refused(self._response, str(error)) if self._response is not None else _odd(str(error))
        if isinstance(error, httpx2.TimeoutException):
            return "it did not take the request in time. Check whether it runs"
        if isinstance(error, httpx2.ProxyError):
            return f"the environment's proxy refused the connection ({error}). Check HTTPS_PROXY and HTTP_PROXY"
        if isinstance(error, (httpx2.NetworkError, httpx2.ProtocolError)):
            return "it closed the connection without an answer. Check its url (http or https?), and whether it runs"
        return f"{type(error).__name__}: {error}"

    def _refused(self, response: httpx2.Response, words: str) -> str:
        """What a response means that is an error or a redirect. `words`: the server's own, where it answered in JSON."""
        status, key = response.status_code, self._server.api_key_env
        path = urlsplit(self._server.url).path.rstrip("/")
        own = words not in _THE_PACKAGES_OWN and not words.startswith(_WRONG_TYPE)
        what = printable(words, 300) if own else response.reason_phrase
        code = f"HTTP {status}" + (f": {what}" if what else "")
        if place := _redirected_to(response):
            if place == shown(self._server.url):
                return f"it redirects to the same address (HTTP {status}). Check its url, and whether it wants a login"
            return (
                f"it redirects to {printable(place, 200)}, which is not followed. Use that as its url, if you trust it"
            )
        match status:
            case 401 | 403:
                return _unauthorized(response, key, code)
            case 400 | 404 | 405 if path.endswith("/sse"):
                return (
                    f"this is an address of MCP's old transport, HTTP with SSE, which is not supported ({code}). "
                    "Use the server's address for streamable HTTP, often the same with /mcp"
                )
            case 404:
                return f"there is nothing at this address ({code}). Check its url: the path is often /mcp"
            case 405:
                return f"this address takes no POST, so it does not speak streamable HTTP ({code}). {_CHECK_URL}"
            case 429:
                after = printable(response.headers.get("retry-after", ""), 40)
                return (
                    f"it takes no more requests for now ({code}{after and f'; Retry-After: {after}'}). Try again later"
                )
            case _ if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
                return f"it failed ({code}). See its own log, or try again later"
        return f"it refused the request ({code}). Check its url and headers"

    async def _arrived(self, response: httpx2.Response) -> None:
        if response.request.method == "POST":
            self._response = response if response.is_error or response.is_redirect else None
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ServerFailed("it compresses its answers, though asked not to")
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream) and not response.headers.get("content-type", "").startswith(
            "text/event-stream"
        ):
            response.stream = _Limited(stream)


_CHECK_URL = "Check its url: the path is often /mcp"
_THE_PACKAGES_OWN = ("Not Found", "Session terminated", "Server returned an error response")
"""Texts of the `mcp` package for an error response without an error in JSON."""
_WRONG_TYPE = "Unexpected content type:"
"""The beginning of the package's text when an answer is neither JSON nor an event stream."""
_PARAMETER = re.compile(r'\b(resource_metadata|error|scope)=(?:"([^"]{1,500})"|([^\s,"]{1,500}))')


def _redirected_to(response: httpx2.Response) -> str:
    """The target of a redirect, without its query; "" for another answer, or an invalid target."""
    location = response.headers.get("location")
    if not response.is_redirect or not location:
        return ""
    try:
        return shown(str(response.url.join(location)))
    except (httpx2.InvalidURL, ValueError):
        return ""


def _unauthorized(response: httpx2.Response, key: str, code: str) -> str:
    """Explain which authorization is missing, as far as the server's challenge shows it (RFC 6750, RFC 9728)."""
    challenge = ", ".join(response.headers.get_list("www-authenticate"))[:4_000]
    fields = {match[1]: printable(match[2] or match[3], 200) for match in _PARAMETER.finditer(challenge)}
    if fields.get("error") == "insufficient_scope":
        scope = fields.get("scope") or "that is needed"
        return f"its token lacks the scope {scope} ({code}). Put another into {key or 'api_key_env'}"
    if "resource_metadata" in fields:
        place = shown(fields["resource_metadata"])
        todo = (
            f"The token in {key} may have expired: get another"
            if key
            else "Get a token from its provider, and name the"
        )
        todo += "" if key else " variable that holds it in api_key_env"
        return (
            f"it wants an OAuth access token ({code}; see {place}), and kin_nb does not log in there by itself. {todo}"
        )
    if key:
        return f"the key is refused ({code}). Check the key in the variable {key}"
    if response.status_code == httpx2.codes.FORBIDDEN:
        return f"it refuses access ({code}). If it wants a key, name the variable that holds it: api_key_env"
    return f"it wants a key ({code}). Name the variable that holds it: api_key_env"


def _odd(words: str) -> str:
    """The `mcp` package's words for answers that it cannot use; a server's own stay."""
    if "more than" in words and "bytes" in words:
        return f"the answer has more than {MESSAGE_LIMIT:,} bytes"
    if words.startswith(("Failed to parse JSON", "Failed to parse SSE")):
        wrong = "not JSON" if "Invalid JSON" in words else "not an MCP message"
        return f"its answer is {wrong}. {_CHECK_URL}"
    if words.startswith(_WRONG_TYPE):
        kind = printable(words.partition(":")[2].partition(";")[0].strip(), 60)
        if kind == "text/html":
            return f"it answers with a web page, perhaps a login, and not with MCP. {_CHECK_URL}"
        return f"it answers with {kind or 'nothing'}, and not with JSON or an event stream. {_CHECK_URL}"
    if words.startswith("server answered a request with 202"):
        return f"it took a request and gave no answer (HTTP 202). {_CHECK_URL}"
    if words == "SSE stream ended without a response":
        return f"its stream of events ended without an answer. {_CHECK_URL}"
    return words


def _check_certificates() -> None:
    """Raises ServerFailed: OpenSSL ignores a file that is not there, and then trusts nothing."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if (place := os.environ.get(name)) and not Path(place).exists():
            raise ServerFailed(f"{name} names {place}, which does not exist. Correct or remove that variable")


def _connection(why: str) -> str:
    """The rest of a sentence, from the bracket on."""
    if "WRONG_VERSION_NUMBER" in why or "record layer failure" in why:
        return "it does not speak TLS); write http:// in its url, if that is safe"
    if "CERTIFICATE_VERIFY_FAILED" in why:
        reason = why.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        if "mismatch" in reason:
            return f"its certificate is for another name: {reason.rstrip('.')}); check its url"
        return f"its certificate is not trusted: {reason}); if it is your own, name its authority in SSL_CERT_FILE"
    return f"{why}); check its url, and whether it runs"


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
