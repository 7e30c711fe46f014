"""Anthropic: what comes back, streamed and whole, from a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import aclosing
from typing import Any

import pytest

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters.anthropic import AnthropicAdapter
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.llm.errors import BackendError, ContextTooLongError, IncompleteReplyError, RateLimitError, RefusedError
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import LLMMessage, Role
from tests.anthropic_server import AnthropicServer, thinking
from tests.model_server import ModelServer, tool_call

PROVIDER = ProviderConfig(name="anthropic", api_base="https://api.anthropic.com/v1", api_style="anthropic")
MODEL = ModelConfig(name="claude-sonnet-5-5", provider="anthropic")
GO = LLMMessage(role=Role.user, content="go")


def backend_for(server: ModelServer, timeout: float = 60.0, tries: int = 1) -> GenericBackend:
    provider = ProviderConfig(name="anthropic", api_base=server.url, api_style="anthropic")
    return GenericBackend(provider, timeout, retry=RetryPolicy(tries=tries, sleep=_no_wait))


async def _no_wait(seconds: float) -> None:
    del seconds


async def collect(backend: GenericBackend, messages: list[LLMMessage] | None = None) -> ResponseBuilder:
    reply = ResponseBuilder()
    request = {"model": MODEL, "messages": messages or [GO], "temperature": 0.2}
    async with aclosing(backend.complete_streaming(**request)) as chunks:
        async for chunk in chunks:
            reply.add(chunk)
    return reply


@pytest.mark.parametrize("streaming", [True, False])
async def test_thinking_text_and_calls_come_back(anthropic_server: AnthropicServer, streaming: bool) -> None:
    calls = [tool_call("bash", command="ls"), tool_call("bash", command="pwd")]
    anthropic_server.enqueue("Look:", reasoning="Hm, well.", calls=calls, usage={"output_tokens": 33})
    async with backend_for(anthropic_server) as backend:
        if streaming:
            reply = await collect(backend)
            message, usage, finish = reply.message, reply.usage, reply.finish_reason
        else:
            whole = await backend.complete(model=MODEL, messages=[GO], temperature=0.0)
            message, usage, finish = whole.message, whole.usage, whole.finish_reason
    assert (message.content, message.reasoning_content, finish) == ("Look:", "Hm, well.", "tool_calls")
    assert [json.loads(c.function.arguments) for c in message.tool_calls] == [{"command": "ls"}, {"command": "pwd"}]
    assert (usage.prompt_tokens, usage.completion_tokens) == (10, 33)
    assert [block["type"] for block in message.reasoning_blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.reasoning_blocks[0]["thinking"] == "Hm, well."
    assert len(message.reasoning_blocks[0]["signature"]) == 64


async def test_thinking_between_texts_keeps_its_place_and_is_accepted_again(anthropic_server: AnthropicServer) -> None:
    blocks = [
        thinking(""),  # a model that keeps it to itself
        {"type": "text", "text": "First. "},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "Second."},
    ]
    anthropic_server.enqueue(blocks=blocks)
    anthropic_server.enqueue("Fine.")
    async with backend_for(anthropic_server) as backend:
        message = (await collect(backend)).message
        await collect(backend, [GO, message, GO])
    assert (message.content, message.reasoning_content) == ("First. Second.", None)
    sent = anthropic_server.requests[1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text", "redacted_thinking", "text"]


async def test_a_reply_without_thinking_keeps_no_blocks(anthropic_server: AnthropicServer) -> None:
    anthropic_server.enqueue("Plain.", calls=[tool_call("bash", command="ls")])
    async with backend_for(anthropic_server) as backend:
        assert (await collect(backend)).message.reasoning_blocks is None


async def test_cached_tokens_are_tokens_of_the_prompt(anthropic_server: AnthropicServer) -> None:
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000}
    anthropic_server.enqueue("x", usage={**usage, "output_tokens": 7})
    async with backend_for(anthropic_server) as backend:
        reply = await collect(backend)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1105, 7)


async def test_why_a_reply_ended(subtests, anthropic_server: AnthropicServer) -> None:
    for reason, finish in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "something_new"),
    ]:
        with subtests.test(reason=reason, finish=finish):
            anthropic_server.enqueue("x", stop_reason=reason)
            async with backend_for(anthropic_server) as backend:
                assert (await collect(backend)).finish_reason == finish


async def test_a_refusal_without_a_word_is_an_error(anthropic_server: AnthropicServer) -> None:
    anthropic_server.enqueue(stop_reason="refusal")
    async with backend_for(anthropic_server) as backend:
        with pytest.raises(RefusedError, match="claude-sonnet-5-5 declined to answer"):
            await collect(backend)


@pytest.mark.parametrize("cut", ["first", "stop_reason"])
async def test_a_reply_without_stop_reason_is_an_error(anthropic_server: AnthropicServer, cut: Any) -> None:
    anthropic_server.enqueue(calls=[tool_call("bash", command="ls")], cut_before=cut)
    async with backend_for(anthropic_server) as backend:
        with pytest.raises(IncompleteReplyError, match="the connection closed"):
            await collect(backend)


async def test_a_reply_is_complete_with_its_stop_reason(anthropic_server: AnthropicServer) -> None:
    anthropic_server.enqueue("All there.", cut_before="message_stop")
    async with backend_for(anthropic_server) as backend:
        assert (await collect(backend)).message.content == "All there."


def events(*payloads: dict[str, Any]) -> bytes:
    return b"".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n".encode() for p in payloads)


TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}


async def test_message_stop_ends_a_reply_on_a_connection_that_stays_open(model_server: ModelServer) -> None:
    """The OpenAI server plays it: its path is another, which a custom endpoint shows to be the adapter's business."""
    model_server.enqueue(raw=[events(TEXT, STOP, {"type": "message_stop"})], hold=threading.Event())
    backend = backend_for(model_server)
    backend._adapter.endpoint = "/chat/completions"
    request = {"model": MODEL, "messages": [GO], "temperature": 0.0}
    async with backend, aclosing(backend.complete_streaming(**request)) as chunks:
        assert [c.message.content async for c in chunks] == ["hi", None]
    model_server.violations.clear()


async def test_pings_do_not_count_as_signs_of_life(model_server: ModelServer) -> None:
    pings = iter(lambda: events({"type": "ping"}), None)
    model_server.enqueue(raw=pings, delay=0.01)
    backend = backend_for(model_server, timeout=0.2)
    backend._adapter.endpoint = "/chat/completions"
    async with backend:
        with pytest.raises(IncompleteReplyError, match=r"nothing came for 0\.2 s"):
            await collect(backend)
    model_server.violations.clear()


async def test_replies_that_come_at_the_same_time_do_not_mix(anthropic_server: AnthropicServer) -> None:
    texts = [f"reply {i} " * 20 for i in range(5)]
    for text in texts:
        anthropic_server.enqueue(text, reasoning=text, chunk=3)
    async with backend_for(anthropic_server) as backend:
        replies = [r.message for r in await asyncio.gather(*(collect(backend) for _ in texts))]
    assert sorted(m.content for m in replies) == sorted(texts)
    assert all(m.content == m.reasoning_content == m.reasoning_blocks[0]["thinking"] for m in replies)


def error(kind: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


async def test_each_error_has_its_class(subtests, anthropic_server: AnthropicServer) -> None:
    for status, body, kind, retryable in [
        (529, error("overloaded_error"), BackendError, True),
        (429, error("rate_limit_error"), RateLimitError, True),
        (400, error("invalid_request_error", "prompt is too long: 9 > 8 maximum"), ContextTooLongError, False),
        (
            400,
            error("invalid_request_error", "input length and `max_tokens` exceed context limit"),
            ContextTooLongError,
            False,
        ),
        (400, error("invalid_request_error", "Your credit balance is too low"), RateLimitError, False),
        (413, error("request_too_large"), ContextTooLongError, False),
    ]:
        with subtests.test(status=status, body=body, kind=kind, retryable=retryable):
            anthropic_server.enqueue(status=status, body=body, headers={"request-id": "req_7", "retry-after": "3"})
            async with backend_for(anthropic_server) as backend:
                with pytest.raises(BackendError) as caught:
                    await collect(backend)
            assert type(caught.value) is kind
            assert (caught.value.retryable, caught.value.request_id, caught.value.retry_after) == (
                retryable,
                "req_7",
                "3",
            )


async def test_an_error_event_at_the_start_is_tried_again(subtests, anthropic_server: AnthropicServer) -> None:
    for kind in ["overloaded_error", "api_error", "timeout_error", "rate_limit_error"]:
        with subtests.test(kind=kind):
            anthropic_server.enqueue(raw=events({"type": "message_start", "message": {}}, error(kind)))
            anthropic_server.enqueue("better")
            async with backend_for(anthropic_server, tries=2) as backend:
                assert (await collect(backend)).message.content == "better"


async def test_an_error_event_later_is_raised_after_what_came(anthropic_server: AnthropicServer) -> None:
    anthropic_server.enqueue(raw=events(TEXT, error("overloaded_error", "Overloaded")))
    backend = backend_for(anthropic_server, tries=2)
    async with backend, aclosing(backend.complete_streaming(model=MODEL, messages=[GO], temperature=0.0)) as chunks:
        assert (await anext(chunks)).message.content == "hi"
        with pytest.raises(BackendError, match=r"answered with an error \(529\).*Overloaded"):
            await anext(chunks)


async def test_a_key_in_an_error_never_shows(
    anthropic_server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-ant-0123456789")
    anthropic_server.enqueue(status=401, body=error("authentication_error", "invalid x-api-key: sk-ant-0123456789"))
    provider = ProviderConfig(
        name="anthropic", api_base=anthropic_server.url, api_style="anthropic", api_key_env_var="TEST_KEY"
    )
    async with GenericBackend(provider, 5.0) as backend:
        with pytest.raises(BackendError) as caught:
            await collect(backend)
    assert anthropic_server.headers[0]["x-api-key"] == "sk-ant-0123456789"
    assert "0123456789" not in str(caught.value) + caught.value.body


async def test_the_server_counts_tokens(anthropic_server: AnthropicServer) -> None:
    async with backend_for(anthropic_server) as backend:
        few = await backend.count_tokens(model=MODEL, messages=[GO])
        many = await backend.count_tokens(model=MODEL, messages=[LLMMessage(role=Role.user, content="x" * 4000)])
    assert 990 < many - few < 1010
    assert [set(request) for request in anthropic_server.counted] == [{"model", "messages"}] * 2


async def test_an_estimate_does_when_the_server_cannot_count(anthropic_server: AnthropicServer) -> None:
    anthropic_server.count_status = 404
    async with backend_for(anthropic_server) as backend:
        assert 0 < await backend.count_tokens(model=MODEL, messages=[GO]) < 100
    assert len(anthropic_server.counted) == 1


def test_empty_and_odd_events_say_nothing(subtests) -> None:
    for data in [
        {},
        {"type": "ping"},
        {"type": "message_start", "message": None},
        {"type": "content_block_start", "content_block": {"type": "new_kind"}},
        {"type": "content_block_delta", "delta": None},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 3}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
        {"type": "message_delta", "delta": {"stop_reason": None}},
        {"type": "message", "content": None},
    ]:
        with subtests.test(data=data):
            chunk = AnthropicAdapter().parse_response(data, PROVIDER)
            message = chunk.message
            assert not (message.content)
            assert not (message.reasoning_content)
            assert not (message.tool_calls)
            assert not (message.reasoning_blocks)
            assert (chunk.usage, chunk.finish_reason) == (None, None)


async def test_a_providers_own_beta_is_added_to_ours(anthropic_server: AnthropicServer) -> None:
    anthropic_server.enqueue("x")
    provider = ProviderConfig(
        name="anthropic",
        api_base=anthropic_server.url,
        api_style="anthropic",
        extra_headers={"Anthropic-Beta": "some-beta"},
    )
    async with GenericBackend(provider) as backend:
        await collect(backend)
    assert anthropic_server.headers[0]["anthropic-beta"] == "thinking-binding-controls-2026-08-01,some-beta"
