"""An adapter of one's own, as seed 000 shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.backend.generic import (
    BACKEND_ADAPTERS,
    APIAdapter,
    GenericBackend,
    PreparedRequest,
    register_adapter,
)
from kin_nb.core.llm.errors import IncompleteReplyError
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role
from tests.model_server import ModelServer

GO = [LLMMessage(role=Role.user, content="go")]
MODEL = ModelConfig(name="scripted", provider="mine", thinking="high")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    @register_adapter(BACKEND_ADAPTERS, "custom_api")
    class CustomAPIAdapter(APIAdapter):
        endpoint = "/chat/completions"

        def prepare_request(
            self,
            *,
            model_name,
            messages,
            temperature,
            tools,
            max_tokens,
            tool_choice,
            enable_streaming,
            provider,
            api_key=None,
        ) -> PreparedRequest:
            payload = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
            if enable_streaming:
                payload["stream"] = True
            return PreparedRequest(self.endpoint, {"x-custom": "yes"}, json.dumps(payload).encode())

        def parse_response(self, data: dict, provider: ProviderConfig) -> LLMChunk:
            message = LLMMessage(role=Role.assistant, content=data.get("said"))
            return LLMChunk(message=message, usage=LLMUsage(prompt_tokens=3, completion_tokens=1))

    yield
    del BACKEND_ADAPTERS["custom_api"]


def backend_for(server: ModelServer) -> GenericBackend:
    provider = ProviderConfig(name="mine", api_base=server.url, api_style="custom_api")
    return GenericBackend(provider, 5.0, retry=RetryPolicy(tries=1))


async def test_it_serves_whole_replies(model_server: ModelServer) -> None:
    model_server.enqueue(body={"said": "hello"})
    async with backend_for(model_server) as backend:
        reply = await backend.complete(model=MODEL, messages=GO, temperature=0.0)
    assert (reply.message.content, reply.usage.prompt_tokens, reply.finish_reason) == ("hello", 3, "stop")
    assert model_server.headers[0]["x-custom"] == "yes"


async def test_it_serves_streams_that_end_as_http_says(model_server: ModelServer) -> None:
    model_server.enqueue(raw=[b'data: {"said": "hel"}\n\n', b'data: {"said": "lo"}\n\n'])
    async with backend_for(model_server) as backend:
        chunks = [c async for c in backend.complete_streaming(model=MODEL, messages=GO, temperature=0.0)]
    assert [c.message.content for c in chunks] == ["hel", "lo", None]
    assert chunks[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    "raw",
    [
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            b'17\r\ndata: {"said": "hel"}\n\n\r\n40\r\ndata'
        ),
        b'data: {"said": "hel"}\n\ndata: {"sai',
        b"\n\n",
    ],
)
async def test_a_stream_that_breaks_off_or_says_nothing_is_no_reply(model_server: ModelServer, raw: bytes) -> None:
    model_server.enqueue(raw=raw)
    async with backend_for(model_server) as backend:
        with pytest.raises(IncompleteReplyError):
            async for _ in backend.complete_streaming(model=MODEL, messages=GO, temperature=0.0):
                pass


async def test_one_that_asks_for_the_model_gets_it(model_server: ModelServer) -> None:
    seen = []

    class Curious(BACKEND_ADAPTERS["custom_api"]):
        model: ModelConfig | None = None

        def prepare_request(self, **request) -> PreparedRequest:
            seen.append(self.model)
            return super().prepare_request(**request)

    register_adapter(BACKEND_ADAPTERS, "custom_api")(Curious)
    model_server.enqueue(body={"said": "hello"})
    async with backend_for(model_server) as backend:
        await backend.complete(model=MODEL, messages=GO, temperature=0.0)
    assert seen == [MODEL]
