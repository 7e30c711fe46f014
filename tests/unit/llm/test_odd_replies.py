"""A server that puts odd values where its format has others: a reply, or a BackendError, and nothing else."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from kin_nb.core.config import ProviderConfig
from kin_nb.core.llm.adapters.anthropic import AnthropicAdapter
from kin_nb.core.llm.adapters.base import APIAdapter
from kin_nb.core.llm.adapters.encoding import as_count
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.llm.backend.response_reader import ResponseReader
from kin_nb.core.llm.errors import BackendError, Where, extract_message, status_in
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.messages import FunctionCall, LLMChunk, LLMMessage, Role, ToolCall
from kin_nb.core.model_response import ModelResponse
from kin_nb.core.records import RecordedStep

Path = tuple[str | int, ...]


_NESTED = {"lists": ("[", "]"), "errors": ('{"error":', "}"), "texts": ('{"text":[', "]}")}


def to_json(value: Any) -> str:
    """With nesting in place of "200 lists": Python's own encoder goes no deeper than its stack."""

    def nested(match: re.Match[str]) -> str:
        start, end = _NESTED[match[2]]
        return start * int(match[1]) + '"x"' + end * int(match[1])

    return re.sub(r'"(\d+) (lists|errors|texts)"', nested, json.dumps(value))


ODD: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus one": -1,
    "fraction": 2.5,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "1e300": 1e300,
    "4,000 digits": 10**4000,
    "no text": "",
    "text": "many",
    "superscript": "²",
    "5,000 digits as text": "9" * 5000,
    "long": "x" * 50_000,
    "half a character": "\ud800",
    "NUL": "\0",
    "empty list": [],
    "empty object": {},
    "list": [None, 1, "x", [], {"a": [math.inf]}],
    "object": {"": None, "\ud800": "\udc00", "a": {"b": [1e300, 10**4000]}, "error": {"error": "x"}},
    **{odd: odd for depth in (30, 200, 450, 850, 900, 950, 5000) for what in _NESTED for odd in [f"{depth} {what}"]},
}

_CALL = {
    "index": 0,
    "id": "call00001",
    "type": "function",
    "function": {"name": "read_file", "arguments": "{}", "more": "x"},
    "extra_content": {"google": {"thought_signature": "x"}},
}
_MESSAGE = {"content": "Hello.", "reasoning_content": "Hm.", "tool_calls": [_CALL]}
_PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Hello."}]
_USAGE = {"prompt_tokens": 5, "completion_tokens": 5}
_BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
    {"type": "text", "text": "Hello."},
    {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a.py"}, "more": "x"},
]
_COUNTS = {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}
_ERROR = {"error": {"message": "boom", "type": "x", "code": 500, "status": 500, "http_code": 500, "error": {"code": 5}}}


def _events(*deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "content_block_delta", "index": 3, "delta": delta} for delta in deltas]


STREAMS: dict[str, tuple[type[APIAdapter], list[dict[str, Any]]]] = {
    "openai": (
        OpenAIAdapter,
        [
            {"choices": [{"index": 0, "delta": _MESSAGE}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}}]},
            {"choices": [{"index": 0, "delta": {"content": _PARTS}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": _USAGE},
        ],
    ),
    "openai error": (OpenAIAdapter, [_ERROR]),
    "anthropic": (
        AnthropicAdapter,
        [
            {"type": "message_start", "message": {"usage": _COUNTS}},
            *[{"type": "content_block_start", "index": n, "content_block": b} for n, b in enumerate(_BLOCKS)],
            *_events(
                {"type": "text_delta", "text": "Hello."},
                {"type": "input_json_delta", "partial_json": "{}"},
                {"type": "thinking_delta", "thinking": "Hm."},
                {"type": "signature_delta", "signature": "s"},
            ),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": _COUNTS},
        ],
    ),
    "anthropic error": (AnthropicAdapter, [{"type": "error", **_ERROR}]),
}
WHOLE: dict[str, tuple[type[APIAdapter], list[dict[str, Any]]]] = {
    "openai": (
        OpenAIAdapter,
        [{"choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "tool_calls"}], "usage": _USAGE}],
    ),
    "anthropic": (
        AnthropicAdapter,
        [{"type": "message", "content": _BLOCKS, "stop_reason": "tool_use", "usage": _COUNTS}],
    ),
}
PROVIDER = ProviderConfig(name="acme", api_base="http://127.0.0.1:1/v1")
WHERE = Where(provider=PROVIDER, endpoint="http://127.0.0.1:1/v1/x", model="m")


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def with_odd(value: Any, path: Path, odd: Any) -> Any:
    if not path:
        return odd
    changed = copy.copy(value)
    changed[path[0]] = with_odd(value[path[0]], path[1:], odd)
    return changed


def answer(events: list[Any], *, streaming: bool) -> httpx.Response:
    if not streaming:
        return httpx.Response(200, headers={"content-type": "application/json"}, content=to_json(events[0]).encode())
    body = "".join(f"data: {to_json(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())


async def read(adapter: APIAdapter, response: httpx.Response, *, streaming: bool) -> RecordedStep:
    """The reply as the agent records it; it is sent back, too."""
    reply = ModelResponse("f")
    async with aclosing(
        reply.stream(ResponseReader(adapter, WHERE, 5.0).chunks(response, streaming=streaming))
    ) as events:
        async for _ in events:
            pass
    adapter.prepare_request(
        model_name="m",
        messages=[LLMMessage(role=Role.user, content="go"), reply.message],
        temperature=0.0,
        tools=None,
        tool_choice=None,
        enable_streaming=streaming,
        provider=PROVIDER,
    )
    return RecordedStep.model_validate_json(reply.step.model_dump_json())


async def problems(
    kind: type[APIAdapter], events: list[dict[str, Any]], odd: str, places: Iterable[Path], *, streaming: bool
) -> list[str]:
    found = []
    for path in places:
        changed = with_odd(events, path, ODD[odd])
        if not isinstance(changed, list) or not changed:
            continue
        try:
            step = await read(kind(), answer(changed, streaming=streaming), streaming=streaming)
        except BackendError:
            continue
        except Exception as error:  # noqa: BLE001  (what must not come)
            found.append(f"{path}: {error!r:.200}")
            continue
        if not all(0 <= count < 2**53 for count in (step.prompt_tokens, step.completion_tokens)):
            found.append(f"{path}: {step.prompt_tokens:.6g}, {step.completion_tokens:.6g} tokens")
    return found


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("replies", "streaming"), [(STREAMS, True), (WHOLE, False)], ids=["stream", "whole"])
async def test_odd_values_are_a_reply_or_a_backend_error(subtests, replies, streaming, every):
    """`every`: each odd value takes every n-th place, each value other ones."""
    for name, (kind, events) in replies.items():
        for number, odd in enumerate(ODD):
            with subtests.test(odd=odd, name=name):
                taken = itertools.islice(places(events), number % every, None, every)
                assert await problems(kind, events, odd, taken, streaming=streaming) == []


async def test_what_the_odd_values_replace_is_a_reply():
    for streaming, replies in ((True, STREAMS), (False, WHOLE)):
        for name in ("openai", "anthropic"):
            kind, events = replies[name]
            step = await read(kind(), answer(events, streaming=streaming), streaming=streaming)
            assert (step.content[:6], step.prompt_tokens, step.completion_tokens) == ("Hello.", 5, 5)
            assert [call.name for call in step.calls] == ["read_file"]


def test_words_of_an_error_that_is_nested_deeply_are_some_or_none(subtests):
    for number, depth in enumerate([30, 200, 900, 940, 100_000]):
        with subtests.test(number=number):
            for start, end in (("[", "]"), ('{"error":', "}"), ('{"error":[', "]}")):
                assert isinstance(extract_message(start * depth + '"x"' + end * depth), str)


def test_a_code_that_is_no_http_error_is_none(subtests):
    for number, code in enumerate(["²", "٤٠٤", "9" * 5000, 10**4000, True, None, 404.0, [404], "4040", "-404", 600]):
        with subtests.test(number=number):
            assert status_in({"code": code, "error": {"status": "503"}}) == 503


def test_a_figure_that_is_no_count_counts_nothing(subtests):
    for number, value in enumerate([math.nan, math.inf, -math.inf, 1e300, 2**53, 10**4000, -1, True, "5", None, [5]]):
        with subtests.test(number=number):
            assert as_count(value) == 0


def test_arguments_that_are_nested_deeply_are_merged():
    reply = ResponseBuilder()
    for arguments in ('{"a":' + "[" * 100_000 + "}", "{}"):
        function = FunctionCall(name="read_file", arguments=arguments)
        call = ToolCall(id="call00001", index=0, function=function)
        reply.add(LLMChunk(message=LLMMessage(role=Role.assistant, tool_calls=[call])))
    assert len(reply.message.tool_calls or ()) == 1
