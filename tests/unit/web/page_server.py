"""Pages on loopback: real HTTP, each path answered as the test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.serving import serving

DRIP = "drip"
"""A body of this never ends: a byte now and then."""


class PageServer(ThreadingHTTPServer):
    """`pages`: path -> (status, headers, body). `seen`: (path, headers in lower case) of each request."""

    daemon_threads = True

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__((host, port), _Handler)
        self.pages: dict[str, tuple[int, dict[str, str], bytes | str]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()
        self.scheme = "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def page(self, path: str, body: bytes | str, content_type: str = "text/html", **headers: str) -> str:
        """Its URL."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (200, {"content-type": content_type, **named}, body)
        return f"{self.url}{path}"

    def redirect(self, path: str, to: str, status: int = 302, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (status, {"location": to, **named}, b"")
        return f"{self.url}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the tests."""


@contextmanager
def pages(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[PageServer]:
    with serving(PageServer(host, port, tls)) as server:
        try:
            yield server
        finally:
            server.closing.set()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path
        self.server.seen.append((path, {name.lower(): value for name, value in self.headers.items()}))
        known = self.server.pages.get(path) or self.server.pages.get(path.partition("?")[0])
        status, headers, body = known or (404, {"content-type": "text/plain"}, b"nothing here")
        drips = body == DRIP
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not drips:
            self.send_header("content-length", str(len(content)))
        self.send_header("connection", "close")
        self.end_headers()
        try:
            if not drips:
                self.wfile.write(content)
            while drips and not self.server.closing.wait(0.02):
                self.wfile.write(b"x")
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name in the base class)
        pass
