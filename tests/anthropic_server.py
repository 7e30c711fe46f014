"""A scripted server of Anthropic's Messages API on loopback, which refuses what the real one refuses.

    with AnthropicServer.start() as server:
        server.enqueue("Let me look.", reasoning="Hm.", calls=[tool_call("read_file", path="x")])
        ...  # a provider with api_style="anthropic" and api_base=server.url
        assert not server.violations

One reply is taken per request to `/messages`; a refused request takes none. `/messages/count_tokens` answers with a
quarter of the request's bytes, or with `count_status`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.anthropic_rules import broken_rules
from tests.model_server import ModelServer, Rules, _Answer, _pieces

Block = dict[str, Any]
Cut = Literal["first", "stop_reason", "message_stop"]


def thinking(text: str) -> Block:
    """For `enqueue(blocks=[...])`; the server signs it."""
    return {"type": "thinking", "thinking": text}


@dataclass
class _Reply:
    blocks: list[Block] = field(default_factory=list)
    stop_reason: str | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    chunk: int = 8
    cut_before: Cut | None = None
    raw: bytes | None = None
    usage: dict[str, int] | None = None

    @property
    def finish(self) -> str:
        called = any(block["type"] == "tool_use" for block in self.blocks)
        return self.stop_reason or ("tool_use" if called else "end_turn")


class AnthropicServer(ModelServer):
    """`counted`: bodies of the requests that asked for a count. `violations`: what was refused, and why."""

    def __init__(self, rules: Rules = "openai") -> None:
        super().__init__(rules)
        self.counted: list[dict[str, Any]] = []
        self.count_status = 200
        self._replies: list[_Reply] = []
        self._signed: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}

    def enqueue(  # type: ignore[override]
        self,
        text: str | None = None,
        *,
        reasoning: str | None = None,
        calls: Iterable[dict[str, Any]] | None = None,
        blocks: Iterable[Block] | None = None,
        stop_reason: str | None = None,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        chunk: int = 8,
        cut_before: Cut | None = None,
        raw: bytes | None = None,
        usage: dict[str, int] | None = None,
    ) -> None:
        """Script the next reply: thinking, text and calls in that order, or `blocks` in theirs; else as ModelServer."""
        said = [thinking(reasoning)] if reasoning is not None else []
        said += [{"type": "text", "text": text}] if text is not None else []
        said += [self._use(call["function"]) for call in calls or ()]
        said = [self._sign(block) for block in blocks or said]
        self._replies.append(_Reply(said, stop_reason, status, headers or {}, body, chunk, cut_before, raw, usage))

    def _use(self, function: dict[str, Any]) -> Block:
        number = next(self._call_numbers)
        name, arguments = function["name"], json.loads(function["arguments"])
        return {"type": "tool_use", "id": f"toolu_{number:020d}", "name": name, "input": arguments}

    def _sign(self, block: Block) -> Block:
        if block["type"] == "thinking":
            signature = hashlib.sha256(f"{len(self._signed)}{block['thinking']}".encode()).hexdigest()
            self._signed[signature] = block["thinking"]
            return {**block, "signature": signature}
        if block["type"] == "redacted_thinking":
            self._signed[block["data"]] = ""
        return block

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        answer, request = _Answer(writer), json.loads(content)
        counting = path.endswith("/messages/count_tokens")
        if method != "POST" or not (counting or path.endswith("/messages")):
            return await answer.plain(404, _error("not_found_error", f"{method} {path}"))
        broken = next(broken_rules(request, self._signed, counting=counting), None) or self._changed_prefix(request)
        if "anthropic-version" not in headers:
            broken = "anthropic-version: header is required"
        with self._arrived:
            (self.counted if counting else self.requests).append(request)
            self.headers.append(headers)
            self.violations += [broken] if broken else []
            self._arrived.notify_all()
        if broken:
            return await answer.plain(400, _error("invalid_request_error", broken), {"request-id": "req_refused"})
        if counting:
            return await answer.plain(self.count_status, {"input_tokens": len(content) // 4})
        return await self._reply(answer, request)

    async def _reply(self, answer: _Answer, request: dict[str, Any]) -> bool:
        if not self._replies:
            return await answer.plain(500, _error("api_error", f"nothing enqueued for request {len(self.requests)}"))
        reply = self._replies.pop(0)
        for block in reply.blocks:
            if mark := block.get("signature") or block.get("data"):
                self._prefixes[mark] = _prefix(request, request["messages"])
        if reply.raw is not None:
            await answer.send(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + reply.raw
            )
            return False
        if reply.status is not None:
            return await answer.plain(reply.status, reply.body, reply.headers)
        if request.get("stream"):
            return await self._stream(answer, reply)  # type: ignore[arg-type]
        usage = {"input_tokens": 10, "output_tokens": 5} | (reply.usage or {})
        whole = {"type": "message", "role": "assistant", "content": reply.blocks, "stop_reason": reply.finish}
        return await answer.plain(200, {**whole, "usage": usage})

    async def _stream(self, answer: _Answer, reply: _Reply) -> bool:  # type: ignore[override]
        await answer.begin_chunks(reply.headers)
        usage = {"input_tokens": 10, "output_tokens": 5} | (reply.usage or {})
        written = usage.pop("output_tokens")
        events = [
            {"type": "message_start", "message": {"content": [], "usage": {**usage, "output_tokens": 1}}},
            {"type": "ping"},
            *_block_events(reply),
            {"type": "message_delta", "delta": {"stop_reason": reply.finish}, "usage": {"output_tokens": written}},
            {"type": "message_stop"},
        ]
        stop = {None: len(events), "first": 0, "stop_reason": len(events) - 2, "message_stop": len(events) - 1}
        for event in events[: stop[reply.cut_before]]:
            await answer.send_chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return await answer.end_chunks()

    def _changed_prefix(self, request: dict[str, Any]) -> str | None:
        """Whether anything before a thinking block is not what it was when the block was made (newer models)."""
        binding = (request.get("thinking") or {}).get("block_binding") or {}
        if binding.get("prefix_mismatch_behavior") == "drop_block":
            return None
        for position, message in enumerate(request["messages"]):
            first = message["content"][0]
            made = self._prefixes.get(first.get("signature") or first.get("data") or "")
            if made is not None and made != _prefix(request, request["messages"][:position]):
                return (
                    f"messages.{position}: Invalid `signature` in `thinking` block. It is bound to another conversation"
                )
        return None


def _block_events(reply: _Reply) -> Iterator[dict[str, Any]]:
    for index, block in enumerate(reply.blocks):
        empty = {"text": "", "thinking": "", "signature": "", "input": {}}
        opened = {key: empty.get(key, value) for key, value in block.items()}
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for kind, key, pieces in _deltas(block, reply.chunk):
            for piece in pieces:
                yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: piece}}
        yield {"type": "content_block_stop", "index": index}


def _deltas(block: Block, chunk: int) -> Iterator[tuple[str, str, list[str]]]:
    match block["type"]:
        case "text":
            yield "text_delta", "text", _pieces(block["text"], chunk)
        case "thinking":
            yield "thinking_delta", "thinking", _pieces(block["thinking"], chunk)
            yield "signature_delta", "signature", [block["signature"]]
        case "tool_use":
            yield "input_json_delta", "partial_json", ["", *_pieces(json.dumps(block["input"]), chunk)]


def _prefix(request: dict[str, Any], messages: list[dict[str, Any]]) -> str:
    """What a thinking block is bound to; where the cache ends is no part of it."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key != "cache_control"}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return json.dumps(plain([request.get("system"), request.get("tools"), messages]), sort_keys=True)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
