"""One scripted session with a real agent through three wire formats: the same history, the same record.

The servers check each provider's own rules and refuse what the real one refuses.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import Backend, KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import ErrorEvent
from kin_nb.core.messages import ImageContent
from kin_nb.core.modes import AgentMode
from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

STYLES: dict[str, dict[str, Any]] = {
    "openai": {},
    "mistral": {"backend": Backend.MISTRAL},
    "anthropic": {"api_style": "anthropic"},
}


def png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    )


PICTURE = ImageContent(media_type="image/png", data=base64.b64encode(png()).decode())


async def session(server: Any, style: str, workspace: Any) -> Agent:
    name = {"openai": "m", "mistral": "mistral-medium-latest", "anthropic": "claude-sonnet-4-5"}[style]
    config = KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=server.url, **STYLES[style])],
        models=[ModelConfig(name=name, alias="m", provider="p", supports_images=True, thinking="high")],
    )
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    server.enqueue(
        "Both, and the picture.",
        reasoning="Look at everything.",
        calls=[tool_call("read_file", path=path) for path in ("a.py", "missing.py", "red.png")],
    )
    server.enqueue("It is red.", reasoning="One pixel.")
    events = [event async for event in agent.act("Compare with this.", images=[PICTURE])]
    assert not any(isinstance(event, ErrorEvent) for event in events), events
    server.enqueue("We compared a.py with a red pixel.")
    await agent.compact()
    server.enqueue(reasoning="Once more.", calls=[tool_call("read_file", path="a.py")])
    server.enqueue("Done.")
    await run_turn(agent, "And again?")
    await agent.aclose()
    return agent


def told(agent: Agent) -> list[Any]:
    """The session as recorded, calls told apart by their order, without what only the clock and the provider know."""
    turns = []
    for turn in agent.turns:
        steps = []
        for step in turn.steps:
            calls = [(c.name, c.arguments, c.status, c.output, c.images) for c in step.calls]
            steps.append((step.content, step.reasoning, calls))
        turns.append((turn.prompt, turn.images, turn.compaction and turn.compaction.summary, turn.outcome, steps))
    return turns


@pytest.fixture
def servers():
    with (
        ModelServer.start() as openai,
        ModelServer.start(rules="mistral") as mistral,
        AnthropicServer.start() as anthropic,
    ):
        yield {"openai": openai, "mistral": mistral, "anthropic": anthropic}
        assert [server.violations for server in (openai, mistral, anthropic)] == [[], [], []]


async def test_a_session_is_the_same_through_every_provider(servers, workspace):
    (workspace / "red.png").write_bytes(png())
    agents = {style: await session(server, style, workspace) for style, server in servers.items()}
    first = told(agents["openai"])
    assert [turn[3] for turn in first] == ["done", "done"]
    assert [call[2] for call in first[0][4][0][2]] == ["ok", "error", "ok"]
    assert first[0][4][0][2][2][4][0].data == PICTURE.data
    assert told(agents["mistral"]) == first
    assert told(agents["anthropic"]) == first
    for agent in agents.values():
        assert [m.role for m in agent.messages] == ["system", "user", "user", "assistant", "tool", "assistant"]
        assert agent.messages[1].content.startswith("The conversation so far")


@pytest.mark.parametrize("style", STYLES)
async def test_the_picture_reaches_the_model_and_reasoning_goes_back(servers, workspace, style):
    (workspace / "red.png").write_bytes(png())
    await session(servers[style], style, workspace)
    asked, answered = (str(request["messages"]) for request in servers[style].requests[:2])
    assert asked.count(PICTURE.data) == 1
    assert answered.count(PICTURE.data) == 2
    assert "Look at everything." in answered
