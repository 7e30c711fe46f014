"""Anthropic: what is sent, for each generation of models."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters import anthropic
from kin_nb.core.llm.adapters.anthropic import AnthropicAdapter
from kin_nb.core.llm.adapters.dialects import thinking_warnings
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.messages import (
    AvailableFunction,
    AvailableTool,
    FunctionCall,
    ImageContent,
    LLMMessage,
    Role,
    ToolCall,
)
from tests.anthropic_rules import broken_rules

PROVIDER = ProviderConfig(name="anthropic", api_base="https://api.anthropic.com/v1", api_style="anthropic")
PICTURE = ImageContent(media_type="image/png", data="QUJD")
MARK = {"type": "ephemeral"}
TOOL = AvailableTool(function=AvailableFunction(name="bash", description="run", parameters={"type": "object"}))
SYSTEM = LLMMessage(role=Role.system, content="You are kin.")


def user(text: str | None, **more: Any) -> LLMMessage:
    return LLMMessage(role=Role.user, content=text, **more)


def said(text: str | None = None, *ids: str, **more: Any) -> LLMMessage:
    calls = [ToolCall(id=i, index=n, function=FunctionCall(name="bash", arguments="{}")) for n, i in enumerate(ids)]
    return LLMMessage(role=Role.assistant, content=text, tool_calls=calls or None, **more)


def done(identity: str, text: str | None = "done", **more: Any) -> LLMMessage:
    return LLMMessage(role=Role.tool, content=text, name="bash", tool_call_id=identity, **more)


def prepare(messages: list[LLMMessage], adapter: AnthropicAdapter | None = None, **more: Any) -> Any:
    adapter = adapter or AnthropicAdapter()
    asked = {"model_name": "claude-sonnet-5-5", "tools": None, "max_tokens": None, "tool_choice": None} | more
    level = asked.pop("thinking", "off")
    adapter.model = ModelConfig(name=asked["model_name"], provider="anthropic", thinking=level)
    streaming = {"temperature": 0.2, "enable_streaming": True, "provider": PROVIDER}
    return adapter.prepare_request(messages=messages, **streaming, **asked)


def body(messages: list[LLMMessage], adapter: AnthropicAdapter | None = None, **more: Any) -> dict[str, Any]:
    sent = json.loads(prepare(messages, adapter, **more).body)
    signed = {b["signature"]: b["thinking"] for m in messages for b in m.reasoning_blocks or () if "signature" in b}
    assert list(broken_rules(sent, signed)) == []
    return sent


def unmarked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks = [(m, [{k: v for k, v in b.items() if k != "cache_control"} for b in m["content"]]) for m in messages]
    return [{**message, "content": content} for message, content in blocks]


def test_the_key_and_the_version_are_headers() -> None:
    headers = prepare([user("go")], api_key="secret").headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("secret", "2023-06-01")
    assert "authorization" not in headers


def test_the_system_prompt_and_the_tools_have_places_of_their_own() -> None:
    sent = body([SYSTEM, user("go")], tools=[TOOL], tool_choice="auto")
    assert sent["system"] == [{"type": "text", "text": "You are kin.", "cache_control": MARK}]
    assert sent["tools"] == [{"name": "bash", "description": "run", "input_schema": {"type": "object"}}]
    assert sent["tool_choice"] == {"type": "auto"}
    assert [m["role"] for m in sent["messages"]] == ["user"]


def test_results_of_one_reply_and_the_next_prompt_are_one_message() -> None:
    history = [
        user("go"),
        said("Both.", "aaaaaaaaa", "bbbbbbbbb"),
        done("aaaaaaaaa"),
        done("bbbbbbbbb", ""),
        user("stop"),
    ]
    assert unmarked(body(history)["messages"])[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "aaaaaaaaa", "content": [{"type": "text", "text": "done"}]},
        {"type": "tool_result", "tool_use_id": "bbbbbbbbb"},
        {"type": "text", "text": "stop"},
    ]


def test_neighbours_of_one_role_are_joined_and_a_person_begins() -> None:
    sent = body([said("Hello."), said("Still here."), user("a"), user("b")])
    assert unmarked(sent["messages"]) == [
        {"role": "user", "content": [{"type": "text", "text": "(continued)"}]},
        {"role": "assistant", "content": [{"type": "text", "text": t} for t in ("Hello.", "Still here.")]},
        {"role": "user", "content": [{"type": "text", "text": t} for t in ("a", "b")]},
    ]


def test_empty_text_makes_no_block(subtests) -> None:
    for empty in [None, "", " \n"]:
        with subtests.test(empty=empty):
            sent = body([user("go"), said(empty, "aaaaaaaaa"), done("aaaaaaaaa", empty), said(empty), user(empty)])
            assert [[block["type"] for block in m["content"]] for m in sent["messages"]] == [
                ["text"],
                ["tool_use"],
                ["tool_result", "text"],
            ]


def test_images_stand_in_the_prompt_and_in_the_result() -> None:
    sent = body([user("go", images=[PICTURE]), said(None, "aaaaaaaaa"), done("aaaaaaaaa", images=[PICTURE])])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    assert unmarked(sent["messages"])[0]["content"] == [image, {"type": "text", "text": "go"}]
    assert sent["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "done"}, image]


def test_the_prompt_is_cached_up_to_this_requests_end_and_the_last_ones() -> None:
    adapter, history = AnthropicAdapter(), [SYSTEM, user("a")]
    ends = []
    for _ in range(3):
        sent = body(history, adapter)
        ends.append([i for i, m in enumerate(sent["messages"]) if m["content"][-1].get("cache_control") == MARK])
        assert str(sent).count("cache_control") == len(ends[-1]) + 1
        history += [said("b"), user("c")]
    assert ends == [[0], [0, 2], [2, 4]]


def test_each_message_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    real = anthropic.to_json
    monkeypatch.setattr(anthropic, "to_json", lambda value: encoded.append(value) or real(value))
    adapter, history = AnthropicAdapter(), [user("one"), said("two")]
    prepare(history, adapter, tools=[TOOL])
    assert len(encoded) == 4  # options, tools, two messages
    prepare([*history, user("three")], adapter, tools=[TOOL])
    assert len(encoded) == 6  # options, the new message


def test_a_history_that_changed_is_sent_as_it_is_now() -> None:
    adapter, first = AnthropicAdapter(), [user("one"), said("two"), user("three")]
    injected = [*first[:2], user("three and a note")]
    for history in (first, injected, [*first, said("four"), user("five")], first[:1], [user("new")], first):
        texts = [m["content"][0]["text"] for m in body(history, adapter)["messages"]]
        assert texts == [m.content for m in history]


SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
EMPTY = {"type": "thinking", "thinking": "", "signature": "s2"}


def test_thinking_goes_back_unchanged_and_in_its_place() -> None:
    blocks = [SIGNED, {"type": "text", "text": "Look."}, EMPTY, {"type": "tool_use"}]
    history = [user("go"), said("Look.", "aaaaaaaaa", reasoning_blocks=blocks), done("aaaaaaaaa")]
    content = body(history)["messages"][1]["content"]
    assert content[:3] == [SIGNED, {"type": "text", "text": "Look."}, EMPTY]
    assert content[3]["id"] == "aaaaaaaaa"


def test_a_text_that_was_changed_since_is_the_one_that_is_sent() -> None:
    blocks = [SIGNED, {"type": "text", "text": "as it was"}]
    content = body([user("go"), said("shorter", reasoning_blocks=blocks), user("on")])["messages"][1]["content"]
    assert content == [SIGNED, {"type": "text", "text": "shorter"}]


def test_thinking_that_is_all_that_came_is_left_out() -> None:
    cut = said(None, reasoning_content="Hm.", reasoning_blocks=[SIGNED])
    unsigned = said("x", reasoning_blocks=[{"type": "thinking", "thinking": "half"}, {"type": "text", "text": "x"}])
    sent = body([user("go"), cut, user("on"), unsigned, user("on")])
    assert [[block["type"] for block in m["content"]] for m in sent["messages"]] == [
        ["text", "text"],
        ["text"],
        ["text"],
    ]


DROP = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def test_each_generation_thinks_in_its_way(subtests) -> None:
    for name, level, thinking, effort in [
        ("claude-haiku-4-5-20251001", "off", None, None),
        ("claude-haiku-4-5-20251001", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-opus-4-5", "xhigh", {"type": "enabled", "budget_tokens": 20480}, None),
        ("claude-opus-4-5", "max", {"type": "enabled", "budget_tokens": 24576}, None),
        ("claude-sonnet-4-6", "xhigh", {"type": "adaptive", "display": "summarized"}, "max"),
        ("claude-opus-4-8", "xhigh", {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ("claude-sonnet-4-6", "high", {"type": "adaptive", "display": "summarized"}, "high"),
        ("claude-opus-4-8", "off", None, None),
        ("claude-sonnet-5-5", "off", {"type": "adaptive", **DROP}, None),
        ("claude-opus-5-5", "max", {"type": "adaptive", **DROP, "display": "summarized"}, "max"),
    ]:
        with subtests.test(name=name, level=level, thinking=thinking, effort=effort):
            sent = body([user("go")], model_name=name, thinking=level)
            assert sent.get("thinking") == thinking
            assert sent.get("output_config", {}).get("effort") == effort
            assert ("temperature" in sent) is (thinking is None and "4-5" in name)
            assert sent["max_tokens"] == 32_000


def test_a_small_limit_leaves_no_room_for_thinking() -> None:
    haiku = {"model_name": "claude-haiku-4-5", "thinking": "high"}
    assert body([user("go")], max_tokens=4000, **haiku)["thinking"]["budget_tokens"] == 4000 - 1024
    assert "thinking" not in body([user("go")], max_tokens=2000, **haiku)


def test_manual_thinking_does_not_begin_between_a_call_and_its_answer() -> None:
    haiku = {"model_name": "claude-haiku-4-5", "thinking": "high"}
    history = [user("go"), said(None, "aaaaaaaaa"), done("aaaaaaaaa")]
    assert "thinking" not in body(history, **haiku)
    assert "thinking" in body([*history, said("So."), user("go")], **haiku)


def test_a_model_that_thinks_is_not_made_to_call(subtests) -> None:
    for choice, name, level, sent in [
        ("any", "claude-haiku-4-5", "off", "any"),
        ("required", "claude-haiku-4-5", "off", "any"),
        ("any", "claude-haiku-4-5", "low", "auto"),
        ("any", "claude-opus-5-5", "off", "auto"),
        ("none", "claude-opus-5-5", "high", "none"),
    ]:
        with subtests.test(choice=choice, name=name, level=level, sent=sent):
            sent_body = body([user("go")], model_name=name, thinking=level, tools=[TOOL], tool_choice=choice)
            assert sent_body["tool_choice"] == {"type": sent}


def test_another_makers_model_is_asked_in_the_oldest_way() -> None:
    request = json.loads(prepare([user("go")], model_name="kimi-k3", thinking="low").body)
    assert request["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert request["max_tokens"] == 8192


def test_arguments_that_are_no_object_go_out_as_an_empty_one(subtests) -> None:
    for arguments in [None, "", "{", "[1]", '{"a": NaN}']:
        with subtests.test(arguments=arguments):
            call = ToolCall(id="aaaaaaaaa", function=FunctionCall(name="bash", arguments=arguments))
            history = [user("go"), LLMMessage(role=Role.assistant, tool_calls=[call]), done("aaaaaaaaa")]
            assert body(history)["messages"][1]["content"][0]["input"] == {}


def test_thinking_at_the_end_of_a_cut_reply_is_left_out() -> None:
    blocks = [SIGNED, {"type": "text", "text": "Let me see."}, EMPTY, {"type": "redacted_thinking", "data": "x"}]
    cut = said("Let me see.", reasoning_blocks=blocks)
    sent = body([user("go"), cut, user("on")], thinking="high")
    assert unmarked(sent["messages"])[1]["content"] == [SIGNED, {"type": "text", "text": "Let me see."}]
    assert cut.reasoning_blocks == blocks


def test_a_name_that_a_model_made_up_goes_back_as_one_that_is_taken(subtests) -> None:
    for number, name in enumerate(["functions.read_file", "", "a\nb", "x" * 300]):
        with subtests.test(number=number):
            call = ToolCall(id="t1", index=0, function=FunctionCall(name=name, arguments="{}"))
            reply = LLMMessage(role=Role.assistant, tool_calls=[call])
            sent = body([user("go"), reply, done("t1")])
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent["messages"][1]["content"][0]["name"])
            assert call.function.name == name


async def test_alternatives_at_the_root_of_a_schema_are_sent_as_properties(anthropic_server):
    one = {"properties": {"page_id": {"type": "string"}}, "required": ["page_id"]}
    two = {"properties": {"database_id": {"type": "string"}}}
    own = {"type": "object", "properties": {"limit": {"type": "integer"}}, "required": ["limit"], "anyOf": [one, two]}
    tool = AvailableTool(function=AvailableFunction(name="move", description="", parameters=own))
    anthropic_server.enqueue("Fine.")
    backend = GenericBackend(ProviderConfig(name="p", api_base=anthropic_server.url, api_style="anthropic"))
    model = ModelConfig(name="claude-sonnet-4-5", provider="p")
    request = {"model": model, "messages": [user("Hi")], "temperature": 0.2, "tools": [tool], "tool_choice": "auto"}
    assert (await backend.complete(**request)).message.content == "Fine."  # the server refuses alternatives there
    sent = anthropic_server.requests[0]["tools"][0]["input_schema"]
    assert set(sent["properties"]) == {"limit", "page_id", "database_id"}
    assert sent["required"] == ["limit"]
    assert "anyOf" in own
    await backend.aclose()


def test_a_thinking_level_that_leaves_no_room_is_a_warning() -> None:
    provider = ProviderConfig(name="p", api_base="https://p.example", api_style="anthropic")
    models = [
        ModelConfig(name="claude-sonnet-4-5", alias=str(limit), provider="p", thinking="high", max_tokens=limit)
        for limit in (1_500, 30_000)
    ]
    [warning] = thinking_warnings(KinConfig(providers=[provider]), models)
    assert warning.startswith('thinking = "high" has no effect on 1500: ')


def test_a_system_message_that_is_gone_is_not_sent_again():
    adapter, late = AnthropicAdapter(), LLMMessage(role=Role.system, content="Be brief.")
    assert "Be brief." in body([SYSTEM, user("x"), late], adapter)["system"][0]["text"]
    assert body([SYSTEM, user("x")], adapter)["system"][0]["text"] == "You are kin."
    assert body([late, user("x")], adapter)["system"][0]["text"] == "Be brief."


def test_a_message_that_cannot_be_encoded_is_not_left_out_of_the_next_request():
    adapter, bad = AnthropicAdapter(), said("x", reasoning_blocks=[{"signature": object()}])
    messages = [SYSTEM, user("x"), bad, user("y")]
    for _ in range(2):
        with pytest.raises(TypeError):
            prepare(messages, adapter)
