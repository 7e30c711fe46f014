"""GenericBackend against a real server on loopback."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import threading
from contextlib import aclosing
from typing import Any

import pytest

from kin_nb import __version__
from kin_nb.core.config import Backend, ConfigError, ModelConfig, ProviderConfig
from kin_nb.core.llm.backend.generic import BACKEND_FACTORY, GenericBackend
from kin_nb.core.llm.errors import BackendError, IncompleteReplyError, ServerUnreachableError
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import AvailableFunction, AvailableTool, LLMChunk, LLMMessage, Role
from tests.model_server import ModelServer, tool_call

MODEL = ModelConfig(name="scripted", provider="test")
PROMPT = [LLMMessage(role=Role.user, content="go")]
TOOL = AvailableTool(
    function=AvailableFunction(name="bash", description="run", parameters={"type": "object", "properties": {}})
)


class Pauses:
    """A retry policy that notes its waits instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.policy = RetryPolicy(sleep=self._sleep, jitter=lambda: 0.5, clock=lambda: 0.0)

    async def _sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


def backend_for(url: str, timeout: float = 60.0, **provider: Any) -> GenericBackend:
    return GenericBackend(ProviderConfig(name="test", api_base=url, **provider), timeout, retry=Pauses().policy)


def request(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": PROMPT, "temperature": 0.2, **more}


async def collect(backend: GenericBackend, **more: Any) -> tuple[list[LLMChunk], ResponseBuilder]:
    reply, chunks = ResponseBuilder(), []
    async with aclosing(backend.complete_streaming(**request(**more))) as stream:
        async for chunk in stream:
            chunks.append(chunk)
            reply.add(chunk)
    return chunks, reply


def events(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(p).encode() + b"\n\n" for p in payloads)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


async def test_a_reply_streams_as_deltas_and_ends_with_reason_and_usage(model_server: ModelServer) -> None:
    model_server.enqueue(
        "Hello there.", reasoning="Think.", chunk=4, usage={"prompt_tokens": 7, "completion_tokens": 3}
    )
    async with backend_for(model_server.url) as backend:
        chunks, reply = await collect(backend)
    assert [c.message.content for c in chunks if c.message.content] == ["Hell", "o th", "ere."]
    assert [c.finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert [c.usage for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 3)
    assert (reply.message.content, reply.message.reasoning_content) == ("Hello there.", "Think.")


async def test_complete_gives_what_streaming_gives(model_server: ModelServer) -> None:
    for _ in range(2):
        model_server.enqueue("Look:", calls=[tool_call("bash", command="ls")], usage={"prompt_tokens": 1})
    async with backend_for(model_server.url) as backend:
        whole = await backend.complete(**request())
        _, streamed = await collect(backend)
    assert [r["stream"] for r in model_server.requests] == [False, True]
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"
    assert whole.usage == streamed.usage
    assert whole.message.content == streamed.message.content
    assert whole.message.tool_calls[0].function == streamed.message.tool_calls[0].function


async def test_the_body_says_what_was_asked(model_server: ModelServer) -> None:
    model_server.enqueue("ok")
    async with backend_for(model_server.url) as backend:
        await collect(backend, tools=[TOOL], tool_choice="any", max_tokens=50)
    assert model_server.requests[0] == {
        "model": "scripted",
        "temperature": 0.2,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "tool_choice": "required",
        "tools": [TOOL.model_dump()],
        "messages": [{"role": "user", "content": "go"}],
    }


async def test_headers_carry_key_agent_and_extras_on_both_kinds_of_request(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "secret-key\n")
    model_server.enqueue("a")
    model_server.enqueue("b")
    backend = backend_for(model_server.url, api_key_env_var="TEST_KEY", extra_headers={"X-Team": "blue"})
    async with backend:
        await backend.complete(**request(extra_headers={"x-affinity": "s1"}))
        await collect(backend, extra_headers={"X-Affinity": "s2"})
    for headers, session in zip(model_server.headers, ["s1", "s2"], strict=True):
        assert headers["authorization"] == "Bearer secret-key"
        assert headers["user-agent"] == f"kin_nb/{__version__}"
        assert headers["content-type"] == "application/json"
        assert (headers["x-team"], headers["x-affinity"]) == ("blue", session)


async def test_no_key_means_no_authorization_header(model_server: ModelServer) -> None:
    model_server.enqueue("a")
    async with backend_for(model_server.url) as backend:
        await collect(backend)
    assert "authorization" not in model_server.headers[0]


async def test_one_connection_serves_all_turns(model_server: ModelServer) -> None:
    async with backend_for(model_server.url) as backend:
        for _ in range(4):
            model_server.enqueue("again")
            await collect(backend)
    assert model_server.connections == 1


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the first loop took its connection with it
def test_a_backend_can_be_used_from_a_second_event_loop(model_server: ModelServer) -> None:
    backend = backend_for(model_server.url)

    async def turn(*, last: bool = False) -> str:
        model_server.enqueue("hi")
        reply = await backend.complete(**request())
        if last:
            await backend.aclose()
        return reply.message.content

    assert [asyncio.run(turn()), asyncio.run(turn(last=True))] == ["hi", "hi"]
    gc.collect()  # while the warning is still expected


async def test_a_closed_backend_can_be_used_again(model_server: ModelServer) -> None:
    backend = backend_for(model_server.url)
    for _ in range(2):
        model_server.enqueue("hi")
        async with backend:
            assert (await backend.complete(**request())).message.content == "hi"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_proxy_in_the_environment_does_not_touch_loopback(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv(variable, "socks5://127.0.0.1:9" if variable == "ALL_PROXY" else "http://127.0.0.1:9")
    model_server.enqueue("reached")
    async with backend_for(model_server.url) as backend:
        _, reply = await collect(backend)
    assert reply.message.content == "reached"


async def test_a_remote_server_is_reached_through_the_proxy(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", model_server.url.removesuffix("/v1"))
    model_server.enqueue("through the proxy")
    async with backend_for("http://model.invalid/v1") as backend:
        _, reply = await collect(backend)
    assert reply.message.content == "through the proxy"
    assert model_server.headers[0]["host"] == "model.invalid"


async def test_a_reply_without_finish_reason_is_an_error(subtests, model_server: ModelServer) -> None:
    for cut in ["first", "finish_reason"]:
        for streaming in [True, False]:
            with subtests.test(cut=cut, streaming=streaming):
                model_server.clear()
                for _ in range(3):
                    model_server.enqueue(calls=[tool_call("write_file", path="x", content="y")], cut_before=cut)
                async with backend_for(model_server.url) as backend:
                    with pytest.raises(IncompleteReplyError, match="the reply ended early"):
                        await (collect(backend) if streaming else backend.complete(**request()))


async def test_a_reply_cut_inside_a_chunked_body_is_an_error(model_server: ModelServer) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    body = events(delta(content="half"))
    model_server.enqueue(raw=head + b"%x\r\n" % len(body) + body + b"\r\n40\r\ndata: {")
    async with backend_for(model_server.url) as backend:
        with pytest.raises(IncompleteReplyError, match="the connection broke"):
            await collect(backend)


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_reply_with_finish_reason_is_complete_without_done(model_server: ModelServer, streaming: bool) -> None:
    model_server.enqueue("All there.", cut_before="done")
    async with backend_for(model_server.url) as backend:
        reply = (await collect(backend))[1] if streaming else await backend.complete(**request())
    assert (reply.message.content, reply.finish_reason) == ("All there.", "stop")


async def test_done_without_finish_reason_is_an_error(model_server: ModelServer) -> None:
    model_server.enqueue(raw=events(delta(content="x")) + b"data: [DONE]\n\n")
    async with backend_for(model_server.url) as backend:
        with pytest.raises(IncompleteReplyError):
            await collect(backend)


async def test_usage_may_be_missing_and_the_last_one_counts(model_server: ModelServer) -> None:
    first, second = {"prompt_tokens": 5, "completion_tokens": 1}, {"prompt_tokens": 5, "completion_tokens": 9}
    model_server.enqueue("a", usage=False)
    model_server.enqueue(
        raw=events(
            {**delta(content="b"), "usage": first}, {**delta("stop"), "usage": second}, {"choices": [], "usage": None}
        )
    )
    async with backend_for(model_server.url) as backend:
        assert (await collect(backend))[1].usage is None
        assert (await collect(backend))[1].usage.completion_tokens == 9


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_any_line_ending_no_space_and_split_characters(model_server: ModelServer, newline: bytes) -> None:
    text = "né 漢字 🐍 a\u2028b"
    lines = [b":ping", b"", b"data:" + json.dumps(delta(content=text), ensure_ascii=False).encode(), b""]
    lines += [b"event: ping", b"", b"data:" + json.dumps(delta("stop")).encode(), b"", b"data:[DONE]", b"", b""]
    stream = newline.join(lines)
    model_server.enqueue(raw=[stream[i : i + 1] for i in range(len(stream))])
    async with backend_for(model_server.url) as backend:
        _, reply = await collect(backend)
    assert reply.message.content == text


async def test_a_last_event_without_blank_line_counts(model_server: ModelServer) -> None:
    model_server.enqueue(raw=events(delta(content="x")) + events(delta("stop")).rstrip())
    async with backend_for(model_server.url) as backend:
        assert (await collect(backend))[1].finish_reason == "stop"


async def test_a_stream_with_the_wrong_content_type_is_read(model_server: ModelServer) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=latin-1\r\nconnection: close\r\n\r\n"
    model_server.enqueue(raw=head + 'data: {"choices":[{"delta":{"content":"é"},"finish_reason":"stop"}]}\n\n'.encode())
    async with backend_for(model_server.url) as backend:
        assert (await collect(backend))[1].message.content == "é"


async def test_a_server_that_does_not_stream_is_read(model_server: ModelServer) -> None:
    choice = {"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}
    model_server.enqueue(body={"choices": [choice]})
    async with backend_for(model_server.url) as backend:
        assert (await collect(backend))[1].message.content == "whole"


async def test_an_error_inside_a_stream_is_raised_after_what_came(subtests, model_server: ModelServer) -> None:
    for stream in [
        events(delta(content="a")) + events({"error": {"message": "the GPU fell over", "code": 500}}),
        events(delta(content="a")) + b'event: error\ndata: {"message": "the GPU fell over"}\n\n',
        events(delta(content="a")) + b"event: error\ndata: the GPU fell over\n\n",
        events(delta(content="a")) + events({"object": "error", "message": "the GPU fell over", "code": 40303}),
    ]:
        with subtests.test(stream=stream):
            model_server.clear()
            model_server.enqueue(raw=stream)
            async with (
                backend_for(model_server.url) as backend,
                aclosing(backend.complete_streaming(**request())) as chunks,
            ):
                assert (await anext(chunks)).message.content == "a"
                with pytest.raises(BackendError, match="the GPU fell over"):
                    await anext(chunks)
            assert len(model_server.requests) == 1


async def test_an_error_at_the_start_of_a_stream_is_tried_again(model_server: ModelServer) -> None:
    model_server.enqueue(raw=events({"error": {"message": "overloaded", "code": 529}}))
    model_server.enqueue("better")
    async with backend_for(model_server.url) as backend:
        assert (await collect(backend))[1].message.content == "better"


async def test_retries_wait_as_the_server_asks(model_server: ModelServer) -> None:
    model_server.enqueue(status=429, headers={"retry-after": "7"})
    model_server.enqueue(status=503, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:09 GMT"})
    model_server.enqueue("finally")
    pauses = Pauses()
    provider = ProviderConfig(name="test", api_base=model_server.url)
    async with GenericBackend(provider, 10.0, retry=pauses.policy) as backend:
        assert (await collect(backend))[1].message.content == "finally"
    assert pauses.seconds == [7.0, 9.0]


async def test_a_connection_closed_before_the_answer_is_tried_again(model_server: ModelServer) -> None:
    model_server.enqueue(raw=b"HTTP/")  # less than a status line
    model_server.enqueue(cut_before="first")
    model_server.enqueue("third time")
    async with backend_for(model_server.url) as backend:
        assert (await collect(backend))[1].message.content == "third time"


async def test_a_refusal_is_not_tried_again(subtests, model_server: ModelServer) -> None:
    for status in [400, 401, 403, 404, 422]:
        with subtests.test(status=status):
            model_server.clear()
            model_server.enqueue(status=status)
            async with backend_for(model_server.url) as backend:
                with pytest.raises(BackendError) as caught:
                    await collect(backend)
            assert caught.value.status == status
            assert len(model_server.requests) == 1


async def test_comments_do_not_count_as_signs_of_life(model_server: ModelServer) -> None:
    model_server.enqueue(raw=itertools.repeat(b": still here\n\n"), delay=0.01)
    async with backend_for(model_server.url, timeout=0.2) as backend:
        with pytest.raises(IncompleteReplyError, match=r"nothing came for 0\.2 s"):
            await collect(backend)
    assert len(model_server.requests) == 1


async def test_a_silent_server_is_given_up(model_server: ModelServer) -> None:
    never = threading.Event()
    model_server.enqueue(body={}, hold=never)
    model_server.enqueue("half a reply", hold=never)
    async with backend_for(model_server.url, timeout=0.2) as backend:
        for _ in range(2):
            with pytest.raises(IncompleteReplyError, match=r"nothing came for 0\.2 s"):
                await collect(backend)


async def test_a_server_that_never_closes_does_not_hold_a_finished_reply(model_server: ModelServer) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    stream = events({**delta("stop", content="done"), "usage": usage})
    model_server.enqueue(raw=[stream], hold=threading.Event())
    async with backend_for(model_server.url) as backend, asyncio.timeout(60):
        assert (await collect(backend))[1].message.content == "done"


async def test_cancelling_leaves_the_backend_usable(model_server: ModelServer) -> None:
    model_server.enqueue("never finished", hold=threading.Event())
    model_server.enqueue("next")
    async with backend_for(model_server.url) as backend:
        turn = asyncio.create_task(collect(backend))
        await asyncio.to_thread(model_server.wait_for_request, 1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (await collect(backend))[1].message.content == "next"


async def test_closing_the_stream_early_leaves_the_backend_usable(model_server: ModelServer) -> None:
    model_server.enqueue("a long text that is not wanted", chunk=1)
    model_server.enqueue("next")
    async with backend_for(model_server.url) as backend:
        async with aclosing(backend.complete_streaming(**request())) as stream:
            await anext(stream)
        assert (await collect(backend))[1].message.content == "next"


async def test_no_server_says_so_and_what_to_do(unused_tcp_port: int) -> None:
    async with backend_for(f"http://127.0.0.1:{unused_tcp_port}/v1") as backend:
        with pytest.raises(ServerUnreachableError) as caught:
            await collect(backend)
    assert str(caught.value).splitlines() == [
        f"Cannot reach local server at http://127.0.0.1:{unused_tcp_port}/v1: connection refused.",
        "Start it, or choose another model (%kin model NAME, --model NAME).",
    ]


async def test_a_web_page_is_no_model_server(model_server: ModelServer) -> None:
    model_server.enqueue(body="<html>Welcome</html>", headers={"content-type": "text/html"})
    async with backend_for(model_server.url) as backend:
        with pytest.raises(BackendError, match="answered with a web page"):
            await collect(backend)


async def test_count_tokens_estimates_from_the_request(model_server: ModelServer) -> None:
    short = await backend_for(model_server.url).count_tokens(model=MODEL, messages=PROMPT)
    long = [LLMMessage(role=Role.user, content="x" * 4000)]
    assert 990 < await backend_for(model_server.url).count_tokens(model=MODEL, messages=long) - short < 1010


def test_an_unknown_api_style_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r'unknown api_style "soap"\. Known: .*openai'):
        GenericBackend(ProviderConfig(name="p", api_base="http://x", api_style="soap"))


def test_every_kind_of_backend_has_a_class() -> None:
    assert set(BACKEND_FACTORY) == set(Backend)
