"""A real shell, and turns whose tools reach its namespace as they do in a notebook."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from kin_nb.core.tools.base import AnyTool
from kin_nb.notebook.main_thread_loop import AgentThread, run_on_agent_thread
from kin_nb.notebook.namespace import main_thread, namespace_tools
from tests.unit.core.conftest import _own_home, config, workspace  # noqa: F401  (fixtures)

InTurn = Callable[[Callable[[], Awaitable[Any]]], Any]


@pytest.fixture
def shell(tmp_path, monkeypatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield made
    made.history_manager.end_session() if made.history_manager.enabled else None
    InteractiveShell.clear_instance()


@pytest.fixture
def in_turn() -> Iterator[InTurn]:
    """`in_turn(make)`: await `make()` on the agent's thread, while this one waits as a cell does."""
    thread = AgentThread()

    def run(make: Callable[[], Awaitable[Any]]) -> Any:
        async def turn(submit_main):
            main_thread.set(submit_main)
            return await make()

        return run_on_agent_thread(turn, thread)

    yield run
    thread.close()


@pytest.fixture
def call(shell, in_turn):
    """`call("python", code="x = 1")` -> (the tool, its result)."""
    tools: dict[str, AnyTool] = {}

    def run(name: str, /, **arguments: Any):
        if name not in tools:
            tool = namespace_tools(shell)[name]
            tools[name] = tool.from_config(tool._get_tool_config_class()())
        return in_turn(lambda: tools[name].invoke(**arguments))

    run.tools = tools
    return run


@pytest.fixture
def told(call):
    """As `call`, the result as the model reads it."""

    def run(name: str, /, **arguments: Any) -> str:
        result = call(name, **arguments)
        return call.tools[name].to_model(result)

    return run
