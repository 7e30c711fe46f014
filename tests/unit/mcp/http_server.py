"""An MCP server over HTTP on loopback that misbehaves as it is told."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.serving import serving
from tests.unit.mcp.servers.behaviour import TOOLS, initialized, result


class HttpServer(ThreadingHTTPServer):
    """`told` is what goes wrong: a status for every request, or one of the words in `_Handler`."""

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.told: int | str = ""
        self.location = ""
        self.answer: tuple[int, dict[str, str], bytes] | None = None
        """Status, headers and body for every request, instead."""
        self.path = "/mcp"
        self.tools = list(TOOLS)
        self.failing_lists = 0
        """How many of the next requests for the list are refused."""
        self.session = "session-1"
        self.sse = False
        self.keeps_alive = True
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        """Verb, headers in lower case, and message of each request."""
        self.cancelled = threading.Event()
        self.waiting = threading.Event()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}{self.path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the tests."""

    def methods(self) -> list[str]:
        return [message.get("method", "") for verb, _, message in self.seen if verb == "POST"]

    @classmethod
    @contextmanager
    def start(cls, tls: ssl.SSLContext | None = None) -> Iterator[HttpServer]:
        with serving(cls(tls)) as server:
            try:
                yield server
            finally:
                server.closing.set()


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._see("POST", message)
        told, method = self.server.told, message.get("method", "")
        if self.server.answer is not None:
            status, headers, body = self.server.answer
            return self._send(status, body, headers.pop("content-type", "text/plain"), **headers)
        if isinstance(told, int):
            return self._send(told, b"no", "text/plain")
        if told == "redirect":
            return self._send(307, b"", "text/plain", location=self.server.location)
        if told == "hang":
            self.server.closing.wait(30)
        if self.headers.get("mcp-session-id", self.server.session) != self.server.session:
            return self._send(404, b"", "text/plain")
        if method == "notifications/cancelled":
            self.server.cancelled.set()
        if "id" not in message:
            return self._send(202, b"", "text/plain")
        return self._answer(method, message)

    def do_GET(self) -> None:
        self._see("GET", {})
        self._send(405, b"", "text/plain")

    def do_DELETE(self) -> None:
        self._see("DELETE", {})
        if self.server.told == "hang_at_goodbye":
            self.server.closing.wait(30)
        self._send(200, b"", "text/plain")

    def _answer(self, method: str, message: dict[str, Any]) -> None:  # noqa: C901, PLR0912  (a list of cases)
        params = message.get("params", {})
        match method:
            case "initialize":
                answer = {"result": initialized(params["protocolVersion"])}
            case "tools/list" if self.server.failing_lists:
                self.server.failing_lists -= 1
                answer = {"error": {"code": -32000, "message": "busy"}}
            case "tools/list":
                answer = {"result": {"tools": self.server.tools}}
            case "tools/call":
                name = params["name"]
                if name == "wait":
                    self.server.waiting.set()
                    self.server.cancelled.wait(10)
                if name == "html":
                    return self._send(200, b"<p>no", "text/html")
                if name == "not_json":
                    return self._send(200, b"{", "application/json")
                if name == "zipped":
                    return self._send(200, gzip.compress(b"{}"), "application/json", **{"content-encoding": "gzip"})
                if name == "denied":
                    return self._send(403, b"", "text/plain")
                if name == "too_big":
                    return self._send(200, b" " * 65_000_000, "application/json")
                answer = {"result": result(name, params.get("arguments", {}))}
            case _:
                answer = {"error": {"code": -32601, "message": "Method not found"}}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
        if self.server.sse:
            events = [body]
            if params.get("name") == "change":
                self.server.tools.append({"name": "new"})
                events.insert(0, b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
            stream = b"".join(b"event: message\ndata: " + event + b"\n\n" for event in events)
            return self._send(200, stream, "text/event-stream")
        return self._send(200, body, "application/json")

    def _see(self, verb: str, message: dict[str, Any]) -> None:
        self.server.seen.append((verb, {name.lower(): value for name, value in self.headers.items()}, message))

    def _send(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", self.server.session)
        for name, value in headers.items():
            self.send_header(name, value)
        if not self.server.keeps_alive:
            self.send_header("connection", "close")
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name in the base class)
        pass
