"""A workspace, and one turn of a real agent against a real server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import BaseEvent
from kin_nb.core.modes import AgentMode
from tests.model_server import ModelServer

RunTurn = Callable[[Agent, str], Awaitable[list[BaseEvent]]]


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the person's own configuration, and nothing left in it."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path_factory.mktemp("kin-home")))
    for name in ("KIN_ACTIVE_MODEL", "KIN_POLICY", "KIN_WORKDIR", "MISTRAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\ny = 2\n")
    return folder


@pytest.fixture
def config(model_server: ModelServer, workspace: Path) -> KinConfig:
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=model_server.url)],
        models=[ModelConfig(name="m", provider="p", input_price=1.0, output_price=2.0)],
    )


@pytest.fixture
async def agent(config: KinConfig):
    agent = Agent(config)
    yield agent
    await agent.aclose()


@pytest.fixture
async def trusted(config: KinConfig):
    """An agent that may do everything unasked."""
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    yield agent
    await agent.aclose()


async def run_turn(agent: Agent, prompt: str = "go") -> list[BaseEvent]:
    return [event async for event in agent.act(prompt)]
