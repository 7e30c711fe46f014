"""What a step costs does not grow with the conversation: no message is looked at again that an earlier step has sent."""

from __future__ import annotations

from typing import Any

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.events import StepReplyEvent
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.llm.types import ReplyRequest
from kin_nb.core.messages import LLMMessage, Role
from tests.model_server import tool_call


class Watched(LLMMessage):
    """A message that notes when one of its attributes is asked for."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            looks.append(self)
        return super().__getattribute__(name)


looks: list[LLMMessage] = []


def conversation(pairs: int) -> list[LLMMessage]:
    roles = (Role.user, Role.assistant)
    return [Watched(role=role, content=f"{role} {number}") for number in range(pairs) for role in roles]


async def test_a_step_looks_at_no_message_of_the_steps_before_it(model_server, trusted):
    trusted.history.restart(*conversation(20))
    for path in ("a.py", "b.py", "c.py"):
        model_server.enqueue(calls=[tool_call("read_file", path=path)])
    model_server.enqueue("Read.")
    replies = 0
    async for event in trusted.act("read"):
        replies += isinstance(event, StepReplyEvent)
        if replies <= 1:  # the first request encodes them all
            looks.clear()
    assert replies == 4
    assert len(model_server.requests[-1]["messages"]) == 1 + 40 + 1 + 6
    assert looks == []


def test_a_request_looks_at_what_is_new_and_its_neighbour(subtests):
    for style in ["openai", "mistral", "anthropic"]:
        with subtests.test(style=style):
            assert style in BACKEND_ADAPTERS
            backend = GenericBackend(ProviderConfig(name="p", api_base="http://127.0.0.1:9", api_style=style))

            def prepare(messages: list[LLMMessage], backend: GenericBackend = backend) -> bytes:
                model = ModelConfig(name="m", provider="p")
                more: dict[str, Any] = {"tools": None, "max_tokens": None, "tool_choice": None, "extra_headers": None}
                request = ReplyRequest(model=model, messages=messages, temperature=0.2, **more)
                return backend.prepare(request, streaming=True).body

            messages = conversation(20)
            first = prepare(messages)
            looks.clear()
            second = prepare([*messages, LLMMessage(role=Role.user, content="and now?")])
            assert all(message is messages[-1] for message in looks)
            assert b"and now?" in second
            assert len(second) > len(first)
