"""Mistral: what its API refuses is not sent, and the history stays as it was."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kin_nb.core.config import Backend, ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters.openai import STAND_IN, MistralAdapter
from kin_nb.core.llm.backend.generic import MistralBackend
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import FunctionCall, ImageContent, LLMMessage, Role, ToolCall
from tests.mistral_rules import broken_mistral_rules
from tests.model_server import ModelServer, tool_call

PROVIDER = ProviderConfig(name="mistral", api_base="https://api.mistral.ai/v1", backend=Backend.MISTRAL)
GO = LLMMessage(role=Role.user, content="go")
CALLS = LLMMessage(
    role=Role.assistant,
    reasoning_content="because",
    tool_calls=[ToolCall(id="abcdefghi", index=0, function=FunctionCall(name="bash", arguments="{}"))],
)
DONE = LLMMessage(role=Role.tool, content="done", name="bash", tool_call_id="abcdefghi")
PICTURE = ImageContent(media_type="image/png", data="QUJD")


def body(messages: list[LLMMessage], *, thinking: str = "off", **more: Any) -> dict[str, Any]:
    asked = {"model_name": "devstral-latest", "tools": None, "max_tokens": None, "tool_choice": None} | more
    adapter = MistralAdapter()
    adapter.model = ModelConfig(name=asked["model_name"], provider="mistral", thinking=thinking)
    sent = json.loads(
        adapter.prepare_request(
            messages=messages, temperature=0.0, enable_streaming=True, provider=PROVIDER, **asked
        ).body
    )
    assert list(broken_mistral_rules(sent)) == []
    return sent


def roles(sent: dict[str, Any]) -> list[str]:
    return [message["role"] for message in sent["messages"]]


def test_no_field_is_sent_that_the_api_does_not_know() -> None:
    assert set(body([GO], max_tokens=5)) == {"model", "temperature", "stream", "max_tokens", "messages"}


def test_a_prompt_after_a_stopped_turn_is_fixed_in_what_is_sent_only() -> None:
    history = [GO, CALLS, DONE, LLMMessage(role=Role.user, content="something else")]
    sent = body(history)
    assert roles(sent) == ["user", "assistant", "tool", "assistant", "user"]
    assert sent["messages"][3]["content"] == STAND_IN
    assert [m.role for m in history] == [Role.user, Role.assistant, Role.tool, Role.user]


def test_a_prompt_after_an_unanswered_prompt_is_fixed_too() -> None:
    assert roles(body([GO, GO])) == ["user", "assistant", "user"]


def test_images_of_a_tool_follow_its_message(subtests) -> None:
    for then in [[], [GO], [LLMMessage(role=Role.assistant, content="nice"), GO]]:
        with subtests.test(then=then):
            sent = body([GO, CALLS, DONE.changed(images=[PICTURE]), *then])
            assert roles(sent)[:5] == ["user", "assistant", "tool", "assistant", "user"]
            assert sent["messages"][2]["content"] == "done"
            assert sent["messages"][4]["content"][1] == {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,QUJD"},
            }


def test_a_reply_of_which_nothing_is_left_says_something() -> None:
    assert body([GO, LLMMessage(role=Role.assistant, reasoning_content="hm"), GO])["messages"][1]["content"] == STAND_IN


def test_reasoning_goes_back_as_a_part_to_models_that_think(subtests) -> None:
    for name, thinking, sent in [
        ("devstral-latest", "off", False),
        ("magistral-medium-2509", "off", True),
        ("mistral-small-latest", "low", True),
    ]:
        with subtests.test(name=name, thinking=thinking, sent=sent):
            content = body([GO, CALLS, DONE], model_name=name, thinking=thinking)["messages"][1]["content"]
            part = [{"type": "thinking", "thinking": [{"type": "text", "text": "because"}]}]
            assert content == (part if sent else "")


def test_each_model_gets_an_effort_that_it_knows(subtests) -> None:
    for name, level, effort in [
        ("mistral-medium-3-5", "low", "high"),
        ("mistral-small-latest", "max", "high"),
        ("mistral-large-latest", "low", "low"),
        ("mistral-large-latest", "xhigh", "high"),
        ("mistral-large-latest", "max", "high"),
        ("mistral-medium-3-5", "off", None),
        ("magistral-medium-latest", "high", None),
        ("devstral-latest", "high", None),
    ]:
        with subtests.test(name=name, level=level, effort=effort):
            assert body([GO], model_name=name, thinking=level).get("reasoning_effort") == effort


def test_a_full_window_counts_as_a_cut_off_reply() -> None:
    data = {"choices": [{"delta": {"content": "x"}, "finish_reason": "model_length"}]}
    assert MistralAdapter().parse_response(data, PROVIDER).finish_reason == "length"


def backend(server: ModelServer, **more: Any) -> MistralBackend:
    provider = ProviderConfig(name="mistral", api_base=server.url, backend=Backend.MISTRAL, **more)
    return MistralBackend(provider, 10.0, retry=RetryPolicy(tries=1))


MODEL = ModelConfig(name="mistral-medium-3-5", provider="mistral")


@pytest.mark.parametrize("streaming", [True, False])
async def test_reasoning_text_and_calls_come_back(mistral_server: ModelServer, streaming: bool) -> None:
    mistral_server.enqueue("Look:", reasoning="Hm.", calls=[tool_call("bash", command="ls")])
    async with backend(mistral_server) as server:
        if streaming:
            chunks = [c async for c in server.complete_streaming(model=MODEL, messages=[GO], temperature=0.0)]
            said = "".join(c.message.content or "" for c in chunks), chunks[-1].usage is not None
            thought = "".join(c.message.reasoning_content or "" for c in chunks)
        else:
            reply = await server.complete(model=MODEL, messages=[GO], temperature=0.0)
            said, thought = (reply.message.content, reply.usage is not None), reply.message.reasoning_content
    assert said == ("Look:", True)
    assert thought == "Hm."


async def test_tokens_are_counted_by_a_request_for_one(mistral_server: ModelServer) -> None:
    mistral_server.enqueue("T", usage={"prompt_tokens": 1234, "completion_tokens": 1}, finish_reason="length")
    async with backend(mistral_server) as server:
        assert await server.count_tokens(model=MODEL, messages=[GO]) == 1234
    assert mistral_server.requests[0]["max_tokens"] == 1


async def test_an_estimate_does_when_the_server_cannot_count(mistral_server: ModelServer) -> None:
    mistral_server.enqueue(status=500)
    mistral_server.enqueue("T", usage=False)
    async with backend(mistral_server) as server:
        assert 0 < await server.count_tokens(model=MODEL, messages=[GO]) < 100
        assert 0 < await server.count_tokens(model=MODEL, messages=[GO]) < 100
    assert len(mistral_server.requests) == 2


async def test_another_api_style_stays(model_server: ModelServer) -> None:
    """A proxy in front of Mistral may want another format."""
    with pytest.raises(Exception, match="unknown api_style"):
        backend(model_server, api_style="soap")


def test_a_name_that_a_model_made_up_goes_back_as_one_that_is_taken(subtests) -> None:
    for number, name in enumerate(["functions.read_file", "", "a\nb", "x" * 300]):
        with subtests.test(number=number):
            call = ToolCall(id="abcdefghi", index=0, function=FunctionCall(name=name, arguments="{}"))
            reply = LLMMessage(role=Role.assistant, tool_calls=[call])
            answer = LLMMessage(role=Role.tool, content="no such tool", tool_call_id="abcdefghi", name=name)
            messages = body([GO, reply, answer])["messages"]
            sent = messages[1]["tool_calls"][0]["function"]["name"]
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent)
            assert messages[2].get("name", sent) == sent
            assert (call.function.name, answer.name) == (name, name)
