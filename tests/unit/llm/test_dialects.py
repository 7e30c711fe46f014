"""Servers of OpenAI's format that want something else, and images and thinking levels in that format."""

from __future__ import annotations

import json
from typing import Any

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.config.entries import ThinkingField
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.messages import (
    AvailableFunction,
    AvailableTool,
    FunctionCall,
    ImageContent,
    LLMMessage,
    Role,
    ToolCall,
)
from tests.model_server import broken_rules

TOOL = AvailableTool(function=AvailableFunction(name="bash", description="run", parameters={"type": "object"}))
GO = LLMMessage(role=Role.user, content="go")
PICTURE = ImageContent(media_type="image/png", data="QUJD")
URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def body(provider: ProviderConfig, name: str, *messages: LLMMessage, level: str = "off", **more: Any) -> dict[str, Any]:
    adapter = OpenAIAdapter()
    adapter.model = ModelConfig(name=name, provider=provider.name, thinking=level)
    asked = {"tools": None, "max_tokens": 7, "tool_choice": None, "enable_streaming": False} | more
    request = adapter.prepare_request(
        model_name=name, messages=list(messages) or [GO], temperature=0.2, provider=provider, **asked
    )
    sent = json.loads(request.body)
    assert broken_rules(sent) == []
    return sent


def at(host: str, name: str = "mine") -> ProviderConfig:
    return ProviderConfig(name=name, api_base=f"https://{host}/v1")


def own(field: ThinkingField) -> ProviderConfig:
    return ProviderConfig(name="mine", api_base="https://models.example/v1", thinking_field=field)


LOCALLY = {
    "reasoning_effort": "high",
    "chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "high"},
}
GEMINI = at("generativelanguage.googleapis.com")
OPENAI, OPENROUTER, MOONSHOT, LOCAL = at("api.openai.com"), at("openrouter.ai"), at("api.moonshot.ai"), at("127.0.0.1")


def test_the_limits_name_and_the_temperature(subtests) -> None:
    for provider, model, limit, temperature in [
        (OPENAI, "gpt-5.6-terra", "max_completion_tokens", False),
        (OPENAI, "o3", "max_completion_tokens", False),
        (OPENAI, "gpt-4.1", "max_completion_tokens", True),
        (OPENAI, "gpt-5-chat-latest", "max_completion_tokens", True),
        (MOONSHOT, "kimi-k3.1-pro", "max_completion_tokens", False),
        (OPENROUTER, "openai/gpt-6.1-sol", "max_tokens", True),
        (LOCAL, "gpt-oss", "max_tokens", True),
        (at("127.0.0.1", "openai"), "gpt-5.6-terra", "max_completion_tokens", False),
        (ProviderConfig(name="odd", api_base="http://[broken"), "m", "max_tokens", True),
    ]:
        with subtests.test(provider=provider, model=model, limit=limit, temperature=temperature):
            sent = body(provider, model)
            assert sent[limit] == 7
            assert ("temperature" in sent) is temperature


THINKING_FIELDS = [
    (OPENAI, "gpt-5.1", "max", True, {"reasoning_effort": "high"}),
    (OPENAI, "gpt-5.1", "xhigh", True, {"reasoning_effort": "high"}),
    (OPENAI, "gpt-5.4", "high", True, {"reasoning_effort": "high"}),
    (OPENAI, "gpt-5.4", "xhigh", False, {"reasoning_effort": "xhigh"}),
    (OPENAI, "gpt-5.4", "max", False, {"reasoning_effort": "xhigh"}),
    (OPENAI, "gpt-5.4", "low", False, {"reasoning_effort": "low"}),
    (OPENAI, "gpt-5.6-luna", "high", True, {"reasoning_effort": "high"}),
    (OPENAI, "gpt-5.6-terra", "max", True, {"reasoning_effort": "xhigh"}),
    (OPENAI, "gpt-5.6-luna", "off", True, {"reasoning_effort": "none"}),
    (OPENAI, "gpt-5.6-luna", "off", False, {}),
    (OPENAI, "gpt-4.1", "high", False, {}),
    (OPENAI, "o3", "medium", True, {"reasoning_effort": "medium"}),
    (OPENROUTER, "openai/gpt-6.1-sol", "max", True, {"reasoning": {"effort": "xhigh"}}),
    (OPENROUTER, "openai/gpt-6.1-sol", "xhigh", True, {"reasoning": {"effort": "xhigh"}}),
    (OPENROUTER, "openai/gpt-6.1-sol", "off", True, {}),
    (MOONSHOT, "kimi-k3.1-pro", "medium", True, {"reasoning_effort": "high"}),
    (MOONSHOT, "kimi-k3", "low", True, {"reasoning_effort": "low"}),
    (MOONSHOT, "kimi-k3", "xhigh", True, {"reasoning_effort": "max"}),
    (MOONSHOT, "kimi-k2.6", "high", True, {}),
    (LOCAL, "qwen", "high", True, LOCALLY),
    (LOCAL, "qwen", "max", True, LOCALLY),
    (LOCAL, "qwen", "off", True, {}),
    (at("127.0.0.1", "llamacpp"), "devstral", "high", True, LOCALLY),
    (at("127.0.0.1", "ollama"), "qwen", "high", True, LOCALLY),
    (GEMINI, "gemini-3-pro", "max", True, {"reasoning_effort": "high"}),
    (GEMINI, "gemini-3-pro", "low", False, {"reasoning_effort": "low"}),
    (own("reasoning"), "m", "max", True, {"reasoning": {"effort": "max"}}),
    (own("reasoning_effort"), "m", "xhigh", True, {"reasoning_effort": "xhigh"}),
    (own("enable_thinking"), "m", "low", True, {"enable_thinking": True}),
    (own("thinking"), "m", "high", True, {"thinking": {"type": "enabled"}}),
    (own("chat_template_kwargs"), "m", "high", True, {"chat_template_kwargs": LOCALLY["chat_template_kwargs"]}),
    (own("chat_template_kwargs"), "m", "off", True, {}),
    (own("none"), "m", "high", True, {}),
]


def test_a_thinking_level_in_each_servers_words(subtests) -> None:
    for provider, model, level, tools, fields in THINKING_FIELDS:
        with subtests.test(provider=provider, model=model, level=level, tools=tools, fields=fields):
            sent = body(provider, model, level=level, tools=[TOOL] if tools else None)
            known = {"model", "stream", "temperature", "max_tokens", "max_completion_tokens", "tools", "messages"}
            assert {key: value for key, value in sent.items() if key not in known} == fields


def test_an_image_of_the_person_is_a_part_of_the_prompt() -> None:
    sent = body(LOCAL, "m", GO.changed(images=[PICTURE]), LLMMessage(role=Role.user, images=[PICTURE]))
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "go"}, URL]
    assert sent["messages"][1]["content"] == [URL]


def calls(*ids: str) -> LLMMessage:
    made = [ToolCall(id=i, index=n, function=FunctionCall(name="look", arguments="{}")) for n, i in enumerate(ids)]
    return LLMMessage(role=Role.assistant, tool_calls=made)


def done(identity: str, **more: Any) -> LLMMessage:
    return LLMMessage(role=Role.tool, content="done", name="look", tool_call_id=identity, **more)


def test_images_of_tools_follow_all_answers_to_the_reply(subtests) -> None:
    for then in [[], [GO], [LLMMessage(role=Role.assistant, content="nice"), GO]]:
        with subtests.test(then=then):
            answers = [done("a", images=[PICTURE]), done("b"), done("c", images=[PICTURE])]
            sent = body(LOCAL, "m", GO, calls("a", "b", "c"), *answers, *then)["messages"]
            assert [m["role"] for m in sent[:6]] == ["user", "assistant", "tool", "tool", "tool", "user"]
            said = [part["text"] for part in sent[5]["content"] if part["type"] == "text"]
            assert [part for part in sent[5]["content"] if part["type"] != "text"] == [URL] * 2
            assert said == [f"What look returned as an image (call {i}):" for i in "ac"]
            assert [m["role"] for m in sent[6:]] == [m.role for m in then]


def test_images_of_tools_stay_where_they_were_in_later_requests() -> None:
    adapter, history = OpenAIAdapter(), [GO, calls("a"), done("a", images=[PICTURE])]
    sent = []
    for later in ([], [LLMMessage(role=Role.assistant, content="nice")], [GO]):
        history = [*history, *later]
        request = adapter.prepare_request(
            model_name="m",
            messages=history,
            temperature=0.0,
            tools=None,
            max_tokens=None,
            tool_choice=None,
            enable_streaming=True,
            provider=LOCAL,
        )
        sent.append(request.body.removesuffix(b"]}"))
    assert sent[1].startswith(sent[0])
    assert sent[2].startswith(sent[1])
