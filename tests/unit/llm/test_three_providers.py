"""One conversation through three wire formats and their strict servers: the history it leaves is the same."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from kin_nb.core.config import Backend, ModelConfig, ProviderConfig
from kin_nb.core.llm.backend.generic import BACKEND_FACTORY, GenericBackend
from kin_nb.core.llm.errors import IncompleteReplyError
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import AvailableFunction, AvailableTool, ImageContent, LLMMessage, Role
from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer, tool_call

PNG = ImageContent(media_type="image/png", data=base64.b64encode(b"\x89PNG not much").decode())
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = [AvailableTool(function=AvailableFunction(name="read_file", description="Read", parameters=PARAMETERS))]
SYSTEM = LLMMessage(role=Role.system, content="You are kin.")


def user(text: str, *images: ImageContent) -> LLMMessage:
    return LLMMessage(role=Role.user, content=text, images=list(images) or None)


@dataclass
class Talk:
    """What the agent does with a backend, in small."""

    backend: GenericBackend
    model: ModelConfig
    server: Any
    history: list[LLMMessage] = field(default_factory=lambda: [SYSTEM])
    past: list[LLMMessage] = field(default_factory=list)

    async def ask(self) -> LLMMessage:
        reply = ResponseBuilder()
        request = {"model": self.model, "messages": self.history, "temperature": 0.2, "tools": TOOLS}
        try:
            async with aclosing(self.backend.complete_streaming(**request, tool_choice="auto")) as chunks:
                async for chunk in chunks:
                    reply.add(chunk)
        finally:
            whole = reply.message
            kept = whole if reply.finish_reason else whole.changed(tool_calls=None)
            self.history.append(kept)
        return kept

    def answer(self, calls: LLMMessage, *outputs: str, images: dict[int, ImageContent] | None = None) -> None:
        for number, (call, output) in enumerate(zip(calls.tool_calls, outputs, strict=True)):
            shown = [images[number]] if images and number in images else None
            self.history.append(
                LLMMessage(role=Role.tool, content=output, name="read_file", tool_call_id=call.id, images=shown)
            )

    def compact(self, summary: str) -> None:
        self.past += self.history
        self.history = [SYSTEM, user(summary)]


async def converse(talk: Talk, cut: str) -> list[LLMMessage]:
    server = talk.server
    server.enqueue("Both, then.", reasoning="Two files.", calls=[tool_call("read_file", path=p) for p in "ab"])
    server.enqueue("One is missing.", reasoning="So.")
    server.enqueue(reasoning="Again.", calls=[tool_call("read_file", path="c")])
    server.enqueue("As you like.")
    server.enqueue("Half a sen", cut_before=cut)
    server.enqueue("A whole sentence.")
    server.enqueue(calls=[tool_call("read_file", path="d")])
    server.enqueue("Done.")

    talk.history.append(user("Compare these with the picture.", PNG))
    talk.answer(await talk.ask(), "text of a", "<tool_error>no such file</tool_error>", images={0: PNG})
    await talk.ask()
    talk.history.append(user("And c?"))
    talk.answer(await talk.ask(), "text of c", images={0: PNG})  # and here the person stops the turn
    talk.history.append(user("Never mind. Write a sentence."))
    await talk.ask()
    talk.history.append(user("A longer one."))
    with pytest.raises(IncompleteReplyError):
        await talk.ask()
    talk.history.append(user("Continue."))
    await talk.ask()
    talk.compact("So far: a sentence was written.")
    talk.answer(await talk.ask(), "text of d")
    await talk.ask()
    return talk.past + talk.history


def plain(history: list[LLMMessage]) -> list[dict[str, Any]]:
    """Without what a provider keeps for itself, the calls numbered in place of their ids."""
    numbers: dict[str, int] = {}
    found = []
    for message in history:
        entry = message.model_dump(exclude={"reasoning_blocks", "tool_calls", "tool_call_id"})
        entry["calls"] = [
            (numbers.setdefault(c.id, len(numbers)), c.function.name, c.function.arguments)
            for c in message.tool_calls or ()
        ]
        entry["of"] = numbers.get(message.tool_call_id or "")
        found.append(entry)
    return found


def talk_with(server: Any, name: str, **provider: Any) -> Talk:
    configured = ProviderConfig(name="test", api_base=server.url, **provider)
    backend = BACKEND_FACTORY[configured.backend](configured, 10.0, retry=RetryPolicy(tries=1))
    return Talk(backend, ModelConfig(name=name, provider="test", supports_images=True, thinking="high"), server)


@pytest.fixture
def talks(
    model_server: ModelServer, mistral_server: ModelServer, anthropic_server: AnthropicServer
) -> Iterator[dict[str, Talk]]:
    with AnthropicServer.start() as second:
        yield {
            "openai": talk_with(model_server, "some-model"),
            "mistral": talk_with(mistral_server, "mistral-medium-3-5", backend=Backend.MISTRAL),
            "claude, which thinks as it likes": talk_with(anthropic_server, "claude-sonnet-5-5", api_style="anthropic"),
            "claude, which thinks on request": talk_with(second, "claude-haiku-4-5", api_style="anthropic"),
        }
        assert second.violations == []


async def test_the_same_conversation_leaves_the_same_history(talks: dict[str, Talk]) -> None:
    histories = {}
    for name, talk in talks.items():
        async with talk.backend:
            histories[name] = plain(await converse(talk, "stop_reason" if "claude" in name else "finish_reason"))
    expected = histories.pop("openai")
    assert [message["role"] for message in expected].count("assistant") == 8
    for name, history in histories.items():
        assert history == expected, name


@pytest.mark.parametrize("name", ["devstral", "mistralai/devstral-2512"])
async def test_a_mistral_model_elsewhere_gets_an_alternating_history(model_server: ModelServer, name: str) -> None:
    talk = talk_with(model_server, name)
    async with talk.backend:
        await converse(talk, "finish_reason")
    for request in model_server.requests:
        turns = [m["role"] for m in request["messages"] if m["role"] != "tool" and not m.get("tool_calls")]
        assert turns == ["system", *["user", "assistant"] * (len(turns) // 2), "user"][: len(turns)]


async def test_what_is_sent_only_grows_at_its_end(talks: dict[str, Talk]) -> None:
    """Prompt caches hit: what a request begins with is what the one before it was."""
    for name, talk in talks.items():
        async with talk.backend:
            await converse(talk, "stop_reason" if "claude" in name else "finish_reason")
        requests = [uncached(request["messages"]) for request in talk.server.requests[:-2]]
        for earlier, later in itertools.pairwise(requests):
            assert later[: len(earlier) - 1] == earlier[:-1], name
            first, then = earlier[-1], later[len(earlier) - 1]
            assert then["role"] == first["role"], name
            # Claude's next prompt joins the tool results before it.
            assert then["content"][: len(first["content"])] == first["content"], name


def uncached(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: uncached(item) for key, item in value.items() if key != "cache_control"}
    return [uncached(item) for item in value] if isinstance(value, list) else value
