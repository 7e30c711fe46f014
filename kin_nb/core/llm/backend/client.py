"""The HTTP client of one provider, made at the first request and kept for the life of its event loop, and a request's headers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kin_nb import __version__
from kin_nb.core.config import Backend, ProviderConfig
from kin_nb.core.llm.errors import Where, certificates_error, proxy_error, unusable_header_error, unusable_key_error
from kin_nb.core.urls import is_local

if TYPE_CHECKING:
    import ssl

    import httpx


_LISTED_HEADER = "anthropic-beta"
_KEY_HEADERS = ("authorization", "x-api-key")


def get_user_agent(backend: Backend) -> str:
    """What we call ourselves (seed 000): the same to every kind of server."""
    del backend
    return f"kin_nb/{__version__}"


def request_headers(adapters: dict[str, str], extra: dict[str, str], where: Where) -> dict[str, str]:
    """Names in lower case. Later ones win: ours, the adapter's, the provider's, the call's; `anthropic-beta` is a list.

    Raises AuthenticationError for a key that no header may hold, BackendError for another such header.
    """
    provider = where["provider"]
    merged = {"user-agent": get_user_agent(provider.backend)}
    for headers in (adapters, provider.extra_headers, extra):
        for name, value in headers.items():
            key = name.lower()
            merged[key] = f"{merged[key]},{value}" if key == _LISTED_HEADER and key in merged else value
    for name in _KEY_HEADERS:
        value = merged.get(name, "")
        if not (value.isascii() and value.isprintable()):
            raise unusable_key_error(where)
    for name, value in merged.items():
        if not (name.isascii() and value.isascii()):
            raise unusable_header_error(where, name)
    return merged


_CONNECT_TIMEOUT = 15.0  # seconds
_KEEP_ALIVE = 60.0  # seconds a connection stays open between requests: a tool may run that long


class ProviderClient:
    """`timeout`: seconds without a byte. It can be used again after `aclose`."""

    def __init__(self, provider: ProviderConfig, timeout: float) -> None:
        self._provider, self._timeout = provider, timeout
        self._ssl: ssl.SSLContext | None = None
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self, where: Where) -> httpx.AsyncClient:
        """The client; a new one when the event loop is another, because connections belong to a loop."""
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return self._client
        import httpx  # noqa: PLC0415  (first use)

        local = is_local(self._provider.api_base)
        if self._ssl is None:
            try:
                self._ssl = ssl_context(self._provider.api_base)
            except OSError as error:  # SSLError is one
                raise certificates_error(where, error) from None
        make = partial(
            httpx.AsyncClient,
            verify=self._ssl,
            trust_env=not local,  # a proxy cannot reach this machine's loopback
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_TIMEOUT)),
            limits=httpx.Limits(max_connections=10, max_keepalive_connections=5, keepalive_expiry=_KEEP_ALIVE),
        )
        try:
            self._client, self._loop = make(), loop
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise proxy_error(where, error) from None
        return self._client

    async def aclose(self) -> None:
        """One of another event loop is let go: its connections ended with that loop, or end when they are collected."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()


def ssl_context(api_base: str) -> ssl.SSLContext:
    """Return the TLS settings. For plain HTTP on this machine no certificates are loaded, which would take 60 ms.

    Raises OSError (SSLError is one) where the environment names certificates that cannot be used.
    """
    import ssl  # noqa: PLC0415  (first use)

    import httpx  # noqa: PLC0415  (first use)

    needed = not is_local(api_base) or api_base.startswith("https")
    return httpx.create_ssl_context() if needed else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
