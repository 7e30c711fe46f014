"""The wire format: strict when written, tolerant when read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kin_nb.core.config import ProviderConfig
from kin_nb.core.llm.adapters import openai
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.messages import AvailableFunction, AvailableTool, FunctionCall, LLMMessage, Role, ToolCall
from tests.model_server import broken_rules

LOCAL = ProviderConfig(name="local", api_base="http://127.0.0.1/v1")
OPENAI = ProviderConfig(name="mine", api_base="https://api.openai.com/v1")


def body(messages: list[LLMMessage], provider: ProviderConfig = LOCAL, **more: Any) -> dict[str, Any]:
    return json.loads(prepare(OpenAIAdapter(), messages, provider, **more))


def prepare(adapter: OpenAIAdapter, messages: list[LLMMessage], provider: ProviderConfig = LOCAL, **more: Any) -> bytes:
    asked = {"tools": None, "max_tokens": None, "tool_choice": "auto", "enable_streaming": False} | more
    return adapter.prepare_request(model_name="m", messages=messages, temperature=0.0, provider=provider, **asked).body


def assistant(arguments: str | None = "{}", **fields: Any) -> LLMMessage:
    call = ToolCall(id="abcdefghi", index=0, function=FunctionCall(name="bash", arguments=arguments))
    return LLMMessage(role=Role.assistant, tool_calls=[call], **fields)


def test_arguments_that_are_no_object_go_out_as_an_empty_one(subtests) -> None:
    for number, arguments in enumerate([None, "", "{", "null", "[1]", '"x"', '{"a": NaN}', "[" * 100_000]):
        with subtests.test(number=number):
            answer = LLMMessage(role=Role.tool, content="bad arguments", tool_call_id="abcdefghi", name="bash")
            sent = body([LLMMessage(role=Role.user, content="go"), assistant(arguments), answer])
            assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"
            assert broken_rules(sent) == []


def test_good_arguments_go_out_as_the_model_wrote_them() -> None:
    written = '{ "path" : "a",\n "n":1.0 }'
    sent = body([assistant(written)])
    assert sent["messages"][0]["tool_calls"][0]["function"]["arguments"] == written


def test_a_tool_message_carries_id_and_name_and_content_is_always_text() -> None:
    sent = body([assistant(content=None), LLMMessage(role=Role.tool, tool_call_id="abcdefghi", name="bash")])
    assert sent["messages"][0]["content"] == ""
    assert sent["messages"][1] == {"role": "tool", "content": "", "tool_call_id": "abcdefghi", "name": "bash"}


def test_reasoning_goes_back_under_the_providers_name_but_not_to_openai() -> None:
    message = LLMMessage(role=Role.assistant, content="x", reasoning_content="because")
    other = LOCAL.model_copy(update={"reasoning_field_name": "thoughts"})
    assert body([message])["messages"][0]["reasoning_content"] == "because"
    assert body([message], other)["messages"][0]["thoughts"] == "because"
    assert body([message], OPENAI)["messages"][0] == {"role": "assistant", "content": "x"}


def test_a_lone_surrogate_does_not_break_the_request() -> None:
    raw = prepare(OpenAIAdapter(), [LLMMessage(role=Role.user, content="a\udc80b 🐍")])
    assert json.loads(raw.decode("utf-8"))["messages"][0]["content"] == "a?b 🐍"


def test_each_message_and_the_tools_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    real = openai.to_json
    monkeypatch.setattr(openai, "to_json", lambda value: encoded.append(value) or real(value))
    adapter = OpenAIAdapter()
    tools = [AvailableTool(function=AvailableFunction(name="a", description="", parameters={}))]
    history = [LLMMessage(role=Role.user, content="one"), LLMMessage(role=Role.assistant, content="two")]
    first = prepare(adapter, history, tools=tools)
    assert len(encoded) == 4  # options, tools, two messages
    assert prepare(adapter, [*history, LLMMessage(role=Role.user, content="three")], tools=list(tools)) != first
    assert len(encoded) == 6  # options, the new message
    tools.append(AvailableTool(function=AvailableFunction(name="b", description="", parameters={})))
    assert [t["function"]["name"] for t in json.loads(prepare(adapter, history, tools=tools))["tools"]] == ["a", "b"]


def test_a_history_that_changed_is_sent_as_it_is_now() -> None:
    adapter, texts = OpenAIAdapter(), ["one", "two", "three"]
    first = [LLMMessage(role=Role.user, content=text) for text in texts]
    injected = [*first[:2], LLMMessage(role=Role.user, content="three and a note")]
    later = [*first, LLMMessage(role=Role.user, content="four")]
    for history in (first, injected, later, first[:1], [], first[::-1], later):
        sent = json.loads(prepare(adapter, history))["messages"]
        assert [m["content"] for m in sent] == [m.content for m in history]


def test_a_history_is_encoded_again_for_another_provider() -> None:
    adapter = OpenAIAdapter()
    history = [LLMMessage(role=Role.assistant, content="x", reasoning_content="because")]
    for provider, sent in ((LOCAL, True), (OPENAI, False), (LOCAL, True)):
        assert (b"because" in prepare(adapter, history, provider)) is sent


def test_no_tools_means_no_tool_keys_and_no_stream_options_unless_streaming() -> None:
    assert set(body([assistant()], tools=[])) == {"model", "temperature", "stream", "messages"}
    assert "stream_options" in body([assistant()], enable_streaming=True)


def test_empty_and_odd_events_say_nothing(subtests) -> None:
    for data in [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None, "finish_reason": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None}}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": [None, "x"]}}], "usage": "no"},
        {"choices": [{"delta": {"tool_calls": "x"}}]},
    ]:
        with subtests.test(data=data):
            chunk = OpenAIAdapter().parse_response(data, LOCAL)
            assert (chunk.message.content, chunk.message.tool_calls or None) == (None, None)
            assert (chunk.usage, chunk.finish_reason) == (None, None)


def test_mistrals_typed_parts_become_text_and_reasoning() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    message = OpenAIAdapter().parse_response({"choices": [{"delta": {"content": parts}}]}, LOCAL).message
    assert (message.content, message.reasoning_content) == ("yes", "hm")


def test_reasoning_is_found_under_its_usual_names(subtests) -> None:
    for name in ["reasoning_content", "reasoning", "thoughts"]:
        with subtests.test(name=name):
            provider = LOCAL.model_copy(update={"reasoning_field_name": "thoughts"})
            message = OpenAIAdapter().parse_response({"choices": [{"delta": {name: "hm"}}]}, provider).message
            assert message.reasoning_content == "hm"


def test_a_name_that_a_model_made_up_goes_back_as_one_that_is_taken(subtests) -> None:
    for number, name in enumerate(["functions.read_file", "", "a\nb", "x" * 300]):
        with subtests.test(number=number):
            call = ToolCall(id="abcdefghi", index=0, function=FunctionCall(name=name, arguments="{}"))
            reply = LLMMessage(role=Role.assistant, tool_calls=[call])
            answer = LLMMessage(role=Role.tool, content="no such tool", tool_call_id="abcdefghi", name=name)
            messages = body([LLMMessage(role=Role.user, content="go"), reply, answer])["messages"]
            sent = messages[1]["tool_calls"][0]["function"]["name"]
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent)
            assert messages[2].get("name", sent) == sent
            assert (call.function.name, answer.name) == (name, name)


def test_an_object_schema_without_properties_is_sent_with_none():
    from kin_nb.core.llm.adapters.openai import _tool
    from kin_nb.core.messages import AvailableFunction, AvailableTool

    tool = AvailableTool(function=AvailableFunction(name="t", description="", parameters={"type": "object"}))
    assert _tool(tool)["function"]["parameters"] == {"type": "object", "properties": {}}
    assert tool.function.parameters == {"type": "object"}
