"""A scripted OpenAI-compatible model server on loopback: real HTTP, on its own thread, standard library only.

    with ModelServer.start() as server:
        server.enqueue("Let me look.", calls=[tool_call("read_file", path="x")])
        server.enqueue("Done.")
        ...  # point a provider's api_base at server.url, or write server.config_toml()
        assert server.requests[1]["messages"][-1]["role"] == "tool"
        assert not server.violations

One reply is taken per request to `/chat/completions`, in order; a request that finds none gets a 500 that says so.
With `ModelServer.start(rules="mistral")` it is Mistral's: a request that breaks a rule is refused and takes no reply.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from tests.mistral_rules import broken_mistral_rules

Rules = Literal["openai", "mistral"]

_POLL = 0.005  # seconds between looks at `hold`


def tool_call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A call for `enqueue(calls=[...])`; its id is given when it is enqueued: call00001, call00002, ..."""
    return {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@dataclass
class _Reply:
    text: str | None = None
    reasoning: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    chunk: int = 8
    delay: float = 0.0
    hold: threading.Event | None = None
    cut_before: Literal["first", "finish_reason", "done"] | None = None
    raw: bytes | Iterable[bytes] | None = None
    usage: bool | dict[str, int] = True
    finish_reason: str | None = None
    rules: Rules = "openai"

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    @property
    def is_plain(self) -> bool:
        """An answer with a status or a body of the test's own."""
        return self.status is not None or self.body is not None

    def deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for piece in _pieces(self.reasoning, self.chunk):
            yield self._reasoning(piece)
        for piece in _pieces(self.text, self.chunk):
            yield {"content": piece}
        for index, call in enumerate(self.calls):
            function = call["function"]
            yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]}
            for piece in _pieces(function["arguments"], self.chunk):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message |= self._reasoning(self.reasoning)
            if self.rules == "mistral" and self.text:
                message["content"].append({"type": "text", "text": self.text})
        if self.calls:
            message["tool_calls"] = self.calls
        return message

    def _reasoning(self, text: str) -> dict[str, Any]:
        if self.rules == "mistral":
            return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
        return {"reasoning_content": text}

    def usage_for(self, request_bytes: int) -> dict[str, int] | None:
        if not self.usage:
            return None
        if isinstance(self.usage, dict):
            return self.usage
        written = len(json.dumps(self.message()))
        return {"prompt_tokens": request_bytes // 4, "completion_tokens": written // 4}


class ModelServer:
    """`requests`: parsed bodies; `headers`: their headers, names in lower case; `violations`: broken OpenAI rules."""

    def __init__(self, rules: Rules = "openai") -> None:
        self.rules = rules
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.violations: list[str] = []
        self.connections = 0
        self._queue: deque[_Reply] = deque()
        self._call_numbers = itertools.count(1)
        self._arrived = threading.Condition()
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @contextmanager
    def start(cls, rules: Rules = "openai") -> Iterator[Self]:
        """A running server; at the end its connections are cut and its thread is gone."""
        server, ready = cls(rules), threading.Event()
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        thread = threading.Thread(
            target=lambda: loop.run_until_complete(server._serve(ready, stop)), name="model-server", daemon=True
        )
        thread.start()
        ready.wait(10)
        try:
            yield server
        finally:
            server._closing = True
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()

    def enqueue(
        self,
        text: str | None = None,
        *,
        reasoning: str | None = None,
        calls: Iterable[dict[str, Any]] | None = None,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        chunk: int = 8,
        delay: float = 0.0,
        hold: threading.Event | None = None,
        cut_before: Literal["first", "finish_reason", "done"] | None = None,
        raw: bytes | Iterable[bytes] | None = None,
        usage: bool | dict[str, int] = True,
        finish_reason: str | None = None,
    ) -> None:
        """Script the next reply.

        `chunk`: characters per delta. `delay`: seconds between chunks. `hold`: waited for before the chunk with the
        finish reason. `cut_before`: the connection closes there, without an error on the wire. `status`, `headers`,
        `body` (text, bytes or a JSON value): an answer that is no stream. `raw`: bytes of a whole HTTP answer when
        they begin with "HTTP/", else the bytes of an event stream; an iterable sends each item as an HTTP chunk.
        """
        numbered = [{"id": f"call{next(self._call_numbers):05d}", **call} for call in calls or ()]
        self._queue.append(
            _Reply(
                text,
                reasoning,
                numbered,
                status,
                headers or {},
                body,
                chunk,
                delay,
                hold,
                cut_before,
                raw,
                usage,
                finish_reason,
                self.rules,
            )
        )

    def clear(self) -> None:
        """Begin again, for the next row of a table: no request seen, no reply scripted."""
        self.requests.clear()
        self.headers.clear()
        self._queue.clear()

    def config_toml(self, before: str = "") -> str:
        """A config.toml whose one model, m, is here; `before`: settings that come before its tables."""
        provider = f'[[providers]]\nname = "p"\napi_base = "{self.url}"\n'
        return f'active_model = "m"\n{before}\n{provider}\n[[models]]\nname = "m"\nprovider = "p"\n'

    def wait_for_request(self, n: int, timeout: float = 60.0) -> dict[str, Any]:
        """Block until `n` requests have arrived; the n-th one's body. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= n, timeout):
                raise TimeoutError(f"{len(self.requests)} of {n} requests arrived in {timeout} s")
            return self.requests[n - 1]

    async def _serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        ready.set()
        await stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False when the connection is to be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        answer = _Answer(writer)
        if method == "GET" and path.endswith("/models"):
            return await answer.plain(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        if method != "POST" or not path.endswith("/chat/completions"):
            return await answer.plain(404, {"error": {"message": f"{method} {path}: no such address"}})
        return await self._complete(answer, json.loads(content), headers, len(content))

    async def _complete(self, answer: _Answer, request: dict[str, Any], headers: dict[str, str], size: int) -> bool:
        number = len(self.requests) + 1
        refusal = next(broken_mistral_rules(request), None) if self.rules == "mistral" else None
        reply = self._queue.popleft() if self._queue and not refusal else None
        broken = [refusal[1]] if refusal else [] if self.rules == "mistral" else broken_rules(request)
        with self._arrived:
            self.violations += [f"request {number}: {rule}" for rule in broken]
            self.headers.append(headers)
            self.requests.append(request)
            self._arrived.notify_all()
        if refusal:
            return await answer.plain(refusal[0], {"object": "error", "message": refusal[1], "type": "invalid_request"})
        if reply is None:
            return await answer.plain(
                500, {"error": {"message": f"ModelServer: nothing enqueued for request {number}"}}
            )
        if reply.raw is not None:
            return await self._raw(answer, reply)
        if reply.is_plain:
            await self._held(reply)
            said = {"error": {"message": f"scripted {reply.status}"}} if reply.body is None else reply.body
            return await answer.plain(reply.status or 200, said, reply.headers)
        if not request.get("stream"):
            return await self._whole(answer, reply, size)
        return await self._stream(answer, reply, request, size)

    async def _raw(self, answer: _Answer, reply: _Reply) -> bool:
        assert reply.raw is not None
        if isinstance(reply.raw, bytes):
            whole_answer = reply.raw.startswith(b"HTTP/")
            await answer.send(reply.raw if whole_answer else _STREAM_UNTIL_CLOSED + reply.raw)
            return False
        await answer.begin_chunks(reply.headers)
        for piece in reply.raw:
            await answer.send_chunk(piece)
            await asyncio.sleep(reply.delay)
        await self._held(reply)
        return await answer.end_chunks()

    async def _whole(self, answer: _Answer, reply: _Reply, size: int) -> bool:
        choice = {"index": 0, "message": reply.message(), "finish_reason": reply.finish}
        whole = {"object": "chat.completion", "choices": [choice], "usage": reply.usage_for(size)}
        await self._held(reply)
        if reply.cut_before in {"first", "finish_reason"}:
            half = json.dumps(whole).encode()
            await answer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
            await answer.send(half[: len(half) // 2] if reply.cut_before == "finish_reason" else b"")
            return False
        return await answer.plain(200, whole, reply.headers)

    async def _stream(self, answer: _Answer, reply: _Reply, request: dict[str, Any], size: int) -> bool:
        if reply.cut_before:  # no chunked encoding: the end of the connection looks like the end of the answer
            await answer.send(_STREAM_UNTIL_CLOSED)
            send = answer.send
        else:
            await answer.begin_chunks(reply.headers)
            send = answer.send_chunk
        if reply.cut_before == "first":
            return False
        for delta in reply.deltas():
            await send(_event(choices=[{"index": 0, "delta": delta, "finish_reason": None}]))
            await asyncio.sleep(reply.delay)
        await self._held(reply)
        if reply.cut_before == "finish_reason":
            return False
        await send(_event(choices=[{"index": 0, "delta": {}, "finish_reason": reply.finish}]))
        usage = reply.usage_for(size)
        if usage and (self.rules == "mistral" or (request.get("stream_options") or {}).get("include_usage")):
            await send(_event(choices=[], usage=usage))
        if reply.cut_before == "done":
            return False
        await send(b"data: [DONE]\n\n")
        return await answer.end_chunks()

    async def _held(self, reply: _Reply) -> None:
        # A thread's event cannot be awaited, and waiting for it in a thread would outlive the server.
        while reply.hold and not reply.hold.is_set() and not self._closing:  # noqa: ASYNC110
            await asyncio.sleep(_POLL)


_STREAM_UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@dataclass
class _Answer:
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def plain(self, status: int, body: Any, headers: dict[str, str] | None = None) -> bool:
        is_text = isinstance(body, str | bytes)
        data = body if isinstance(body, bytes) else (body if is_text else json.dumps(body)).encode()
        fields = {"content-type": "text/plain" if is_text else "application/json", "content-length": str(len(data))}
        fields |= {name.lower(): value for name, value in (headers or {}).items()}
        await self.send(_head(status, fields) + data)
        return True

    async def begin_chunks(self, headers: dict[str, str]) -> None:
        fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        await self.send(_head(200, fields | {name.lower(): value for name, value in headers.items()}))

    async def send_chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_chunks(self) -> bool:
        await self.send(b"0\r\n\r\n")
        return True


def _head(status: int, fields: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _event(**fields: Any) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _pieces(text: str | None, size: int) -> list[str]:
    return [(text or "")[i : i + size] for i in range(0, len(text or ""), size)]


def broken_rules(request: dict[str, Any]) -> list[str]:
    """The rules of OpenAI's chat completions that `request` breaks, in words."""
    broken = []
    if not request.get("messages"):
        broken.append("no messages")
    if "tool_choice" in request and not request.get("tools"):
        broken.append("tool_choice without tools")
    if request.get("tools") == []:
        broken.append("an empty list of tools")
    if "stream_options" in request and not request.get("stream"):
        broken.append("stream_options without stream")
    names = [tool["function"]["name"] for tool in request.get("tools") or ()]
    broken += [f"tool name {name!r}" for name in names if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)]
    broken += [
        f"message {position}: a tool message whose content is not text"
        for position, message in enumerate(request.get("messages") or ())
        if message.get("role") == "tool" and not isinstance(message.get("content"), str)
    ]
    return broken + _broken_history(request.get("messages") or [])


def _broken_history(messages: list[dict[str, Any]]) -> list[str]:
    broken = []
    if sum(message.get("role") == "system" for message in messages) > 1:
        broken.append("two system messages")
    open_calls: set[str] = set()
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                broken.append(f"message {position}: a tool message that answers no open call")
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        if open_calls:
            broken.append(f"message {position}: comes before the answers to {sorted(open_calls)}")
        open_calls = set()
        if role not in {"system", "developer", "user", "assistant"}:
            broken.append(f"message {position}: role {role!r}")
        if message.get("content") is None and not message.get("tool_calls"):
            broken.append(f"message {position}: no content")
        for call in message.get("tool_calls") or ():
            broken += [f"message {position}: {rule}" for rule in _broken_call(call, open_calls)]
            open_calls.add(call.get("id") or "")
    if open_calls:
        broken.append(f"the last calls are unanswered: {sorted(open_calls)}")
    return broken


def _broken_call(call: dict[str, Any], open_calls: set[str]) -> Iterator[str]:
    if not call.get("id") or call["id"] in open_calls:
        yield f"tool call id {call.get('id')!r} is empty or used twice"
    if call.get("type") != "function":
        yield f"tool call type {call.get('type')!r}"
    arguments = call.get("function", {}).get("arguments")
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        is_object = False
    if not is_object:
        yield f"arguments that are no JSON object: {arguments!r}"
