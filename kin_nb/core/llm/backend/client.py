"""The HTTP client of one provider: made at the first request, kept for the life of its event loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kin_nb.core.config import ProviderConfig
from kin_nb.core.llm.errors import Where, certificates_error, proxy_error
from kin_nb.core.urls import is_local

if TYPE_CHECKING:
    import ssl

    import httpx

_CONNECT = 15.0  # seconds
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
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, _CONNECT)),
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
    """Loading the certificates takes 60 ms; plain HTTP on this machine gets a context that trusts nobody.

    Raises OSError (SSLError is one) where the environment names certificates that cannot be used.
    """
    import ssl  # noqa: PLC0415  (first use)

    import httpx  # noqa: PLC0415  (first use)

    needed = not is_local(api_base) or api_base.startswith("https")
    return httpx.create_ssl_context() if needed else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
