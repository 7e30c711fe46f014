"""A session with observers, and turns of a real agent that they listen to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ObservabilityConfig, ProviderConfig
from kin_nb.core.events import BaseEvent, TurnEndEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.observability import Observer
from tests.model_server import ModelServer

SECRET = "sk-hunter2hunter2hunter2"

Watch = Callable[[Agent, Observer, str], Awaitable[list[BaseEvent]]]


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """~/.kin-code, empty; a secret that must not get out; and no exporter's address from outside."""
    folder = tmp_path_factory.mktemp("kin-home")
    monkeypatch.setenv("KIN_HOME", str(folder))
    monkeypatch.setenv("MY_API_KEY", SECRET)
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def make_agent(model_server: ModelServer, tmp_path: Path) -> Callable[..., Agent]:
    """An agent that may do everything, with these settings of `[observability]`."""

    def make(**settings: object) -> Agent:
        config = KinConfig(
            workdir=tmp_path,
            active_model="m",
            providers=[ProviderConfig(name="mistral", api_base=model_server.url, api_key_env_var="MY_API_KEY")],
            models=[ModelConfig(name="m-1", alias="m", provider="mistral", input_price=1.0, output_price=2.0)],
            observability=ObservabilityConfig(**settings),  # type: ignore[arg-type]
        )
        (tmp_path / "a.txt").write_text(f"the file's words {SECRET}\n")
        return Agent(config, AgentMode.AUTO_APPROVE)

    return make


@pytest.fixture
def watch() -> Watch:
    """One turn, each event told to the observer: what a session does."""

    async def watch(agent: Agent, observer: Observer, prompt: str) -> list[BaseEvent]:
        events = []
        agent.observers._observers = []  # nobody else listens
        async for event in agent.act(prompt):
            observer.on_event(event)
            events.append(event)
        await agent.aclose()
        assert isinstance(events[-1], TurnEndEvent)
        return events

    return watch
