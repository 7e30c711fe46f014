"""A page over HTTP: every hop's host resolved once, its addresses checked, and the connection made to one of those.

No cookies, no keys, no proxy from the environment. What arrives is bounded in bytes, after decompression; the caller bounds
the time.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from kin_nb import __version__
from kin_nb.core.llm.errors import certificates_problem, reason_of
from kin_nb.core.tool_types import ToolError
from kin_nb.core.web.addresses import checked, is_address
from kin_nb.core.web.url import canonical, host_and_port

if TYPE_CHECKING:
    import ssl

    import httpx

MOST_BYTES = 2_000_000
MOST_HOPS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_FIRST_ERROR = 400
_GZIP = b"\x1f\x8b"
_HEADERS = {
    "user-agent": f"kin_nb/{__version__}",
    "accept": "text/html, text/*, application/json, application/xml;q=0.9, */*;q=0.1",
    "accept-encoding": "gzip",
}
_TIMEOUT = {"connect": 5.0, "read": None, "write": None, "pool": None}
"""Seconds. The caller's limit is on the whole."""
_MOST_ADDRESSES = 3
"""Addresses of one host that are tried."""

Admits = Callable[[str], str]
"""Given the canonical URL that a page redirects to: why it is not gone to, "" when it is."""


class _CutShortError(Exception):
    """The body ended in the middle of what is compressed."""


@dataclass(frozen=True)
class Fetched:
    """`url`: canonical, of the last hop. `content_type`: as the server wrote it. `cut`: the page is longer than `body`."""

    url: str
    content_type: str
    body: bytes
    cut: bool = False


@dataclass(frozen=True)
class Fetcher:
    """`proxy`: resolves the names itself; then only addresses that a URL spells out are checked.

    `takes` says of a content type (lower case, without parameters) whether its body is worth reading.
    """

    takes: Callable[[str], bool]
    allow_private: bool = False
    proxy: str = ""

    async def fetch(self, url: str, admits: Admits) -> Fetched:
        """`url` is canonical. Raises ToolError for whatever is no page that can be read."""
        for _ in range(MOST_HOPS + 1):
            found = await self._hop(url)
            if isinstance(found, Fetched):
                return found
            if why := admits(found):
                raise ToolError(f"{url} redirects to {found}, which is not gone to: {why}.")
            url = found
        raise ToolError(f"Not fetched: more than {MOST_HOPS} redirects, the last one to {url}.")

    async def _hop(self, url: str) -> Fetched | str:
        """The page, or the canonical URL that it redirects to."""
        import httpx  # noqa: PLC0415  (first use)

        host, port = host_and_port(url)
        targets = await self._targets(url, host, port)
        verify = await _ssl_context(needed=url.startswith("https:") or self.proxy.startswith("https:"))
        headers = {**_HEADERS, "host": _site(url)}
        # the certificate must be the host's, not the address's
        extensions = {"sni_hostname": host, "timeout": _TIMEOUT}
        for last, target in zip([*[False] * (len(targets) - 1), True], targets, strict=True):
            request = httpx.Request("GET", target, headers=headers, extensions=extensions)
            try:
                # the bare transport: a client would add cookies, redirects and headers of its own
                proxy = httpx.Proxy(self.proxy) if self.proxy else None
                async with httpx.AsyncHTTPTransport(verify=verify, trust_env=False, proxy=proxy) as transport:
                    return await self._answer(url, await transport.handle_async_request(request))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if last:
                    raise ToolError(f"{url} cannot be reached: {reason_of(error)}.") from error
            except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as error:
                raise ToolError(f"{url} was not fetched: {reason_of(error)}.") from error
        raise AssertionError  # the last target has either answered or raised

    async def _targets(self, url: str, host: str, port: int) -> list[httpx.URL]:
        """`url` with the addresses in the place of its host: nobody resolves the name a second time."""
        import httpx  # noqa: PLC0415  (first use)

        if self.proxy:
            if is_address(host):
                await checked(host, port, allow_private=self.allow_private)
            return [httpx.URL(url)]
        addresses = await checked(host, port, allow_private=self.allow_private)
        return [httpx.URL(url).copy_with(host=address) for address in addresses[:_MOST_ADDRESSES]]

    async def _answer(self, url: str, response: httpx.Response) -> Fetched | str:
        try:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return _next(url, location)
            if response.status_code >= _FIRST_ERROR:
                raise ToolError(f"{url} answers {_status(response.status_code)}.")
            content_type = response.headers.get("content-type", "")
            kind = content_type.partition(";")[0].strip().lower()
            if not self.takes(kind):
                raise ToolError(_refusal(url, kind, response.headers.get("content-length", "")))
            body, cut = await _read(_decoded(response))
            return Fetched(url, content_type, body, cut)
        finally:
            await response.aclose()


def _next(url: str, location: str) -> str:
    try:
        return canonical(urljoin(url, location.strip()))
    except ValueError as error:
        raise ToolError(f"{url} redirects to an address that is not gone to: {error}.") from error


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _refusal(url: str, kind: str, length: str) -> str:
    size = f"{int(length):,} bytes" if length.isdecimal() else "of unknown size"
    shown = kind if kind.isascii() and kind.isprintable() else "something"
    return f"{url} is {shown[:100]} ({size}), and only text is read: pages, JSON, XML, plain text."


async def _decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body in pieces of bounded size, whatever it expands to.

    Raises ToolError for an encoding that was not asked for, and _CutShortError after the last piece of a body without end.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        async for piece in response.aiter_raw():
            yield piece
        return
    if encoding not in {"gzip", "x-gzip"}:
        raise ToolError("The page is compressed in a way that was not asked for, and is not read.")
    unzip, whole = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), True
    async for packed in response.aiter_raw():
        left = packed
        while left:
            try:
                yield unzip.decompress(left, max_length=MOST_BYTES + 1)
            except zlib.error as error:
                raise ToolError("The page is said to be gzip, and is not.") from error
            left, whole = unzip.unconsumed_tail, unzip.eof
            if unzip.eof:
                if not (left := unzip.unused_data).startswith(_GZIP):
                    return
                unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # another member follows
    if not whole:
        raise _CutShortError


async def _read(pieces: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """At most MOST_BYTES, and whether there was more."""
    body = bytearray()
    try:
        async for piece in pieces:
            body += piece
            if len(body) > MOST_BYTES:
                return bytes(body[:MOST_BYTES]), True
    except _CutShortError:
        return bytes(body), True
    return bytes(body), False


def _site(url: str) -> str:
    """The Host header: host and port as the URL has them."""
    return url.partition("://")[2].partition("/")[0]


async def _ssl_context(*, needed: bool) -> ssl.SSLContext:
    import asyncio  # noqa: PLC0415  (first use)
    import ssl  # noqa: PLC0415  (first use)

    import httpx  # noqa: PLC0415  (first use)

    if not needed:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return await asyncio.to_thread(httpx.create_ssl_context)  # reading the certificates takes 60 ms
    except OSError as error:
        raise ToolError(f"Nothing can be fetched: {certificates_problem(error)}.") from error
