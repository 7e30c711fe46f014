"""What a program may put in the place of a part of the agent: each of them is really used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.context.compaction import CompactionResult
from kin_nb.core.context.loop_detector import LoopDetector
from kin_nb.core.events import BaseEvent, TurnEndEvent
from kin_nb.core.messages import AvailableTool, LLMMessage, LLMUsage
from kin_nb.core.middleware import MiddlewareAction, MiddlewareResult
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.approvals import ApprovalResponse
from kin_nb.core.tools.resolve import APIToolFormatHandler, ParsedMessage
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn


class Everything:
    """An observer."""

    def __init__(self) -> None:
        self.events: list[BaseEvent] = []
        self.closed = False

    def on_event(self, event: BaseEvent) -> None:
        self.events.append(event)

    def compacted(self, record: object) -> None:
        self.events.append(record)

    def close(self) -> None:
        self.closed = True


async def test_an_observer_of_a_program_hears_of_each_event_and_is_closed(config, model_server):
    model_server.enqueue("Hello.")
    observer = Everything()
    agent = Agent(config, observers=[observer])
    events = await run_turn(agent, "hi")
    await agent.aclose()
    assert observer.events == events
    assert isinstance(events[-1], TurnEndEvent)
    assert observer.closed


async def test_an_observer_that_fails_is_a_warning_and_the_turn_continues(config, model_server):
    class Broken(Everything):
        def on_event(self, event: BaseEvent) -> None:
            raise ValueError("no room")

    model_server.enqueue("Hello.")
    agent = Agent(config, observers=[Broken()])
    record = (await run_turn(agent, "hi"))[-1].record
    await agent.aclose()
    assert record.outcome == "done"
    assert "Broken failed, and gets no more events: no room." in record.warnings[0]


async def test_a_strategy_of_a_program_compacts(config, model_server):
    class Short:
        async def compact(self, messages, *, ask, window) -> CompactionResult:
            return CompactionResult(f"{len(messages)} messages", kept=0, usage=LLMUsage())

    model_server.enqueue("Hello.")
    agent = Agent(config, compaction=Short())
    await run_turn(agent, "hi")
    assert await agent.compact() == "3 messages"
    await agent.aclose()


async def test_middleware_of_a_program_is_used_in_place_of_the_built_in_one(config):
    class Stops:
        async def before_turn(self, context) -> MiddlewareResult:
            return MiddlewareResult(MiddlewareAction.STOP, reason="not today")

    agent = Agent(config, middleware=[Stops()])
    agent.switch_mode(AgentMode.PLAN)  # the built-in one would come with it
    assert [type(each) for each in agent.middleware_pipeline.middlewares] == [Stops]
    assert (await run_turn(agent, "hi"))[-1].record.message == "not today"
    await agent.aclose()


async def test_a_loop_detector_of_a_program_is_used(config, model_server):
    class Never(LoopDetector):
        def observe(self, *args, **kwargs) -> None:
            seen.append(args[0])

    seen: list[str] = []
    for _ in range(6):
        model_server.enqueue(calls=[tool_call("read_file", path="src/a.py")])
    model_server.enqueue("Done.")
    agent = Agent(config, loops=Never())
    record = (await run_turn(agent, "read"))[-1].record
    await agent.aclose()
    assert record.outcome == "done"
    assert seen == ["read_file"] * 6


@pytest.mark.parametrize("answer", [ApprovalResponse.YES, ApprovalResponse.NO])
async def test_a_callback_that_is_assigned_decides(config, model_server, workspace, answer):
    model_server.enqueue(calls=[tool_call("write_file", path="new.txt", content="x")])
    model_server.enqueue("Done.")
    agent = Agent(config)
    agent.approval_callback = lambda *_: (answer, None)
    await run_turn(agent, "write")
    await agent.aclose()
    assert (workspace / "new.txt").exists() == (answer is ApprovalResponse.YES)


async def test_a_format_handler_that_is_assigned_offers_and_resolves(config, model_server, workspace):
    class Renames(APIToolFormatHandler):
        """Offers one tool, under another name."""

        def get_available_tools(self, tool_manager, config) -> list[AvailableTool]:
            tool = next(each for each in tool_manager.schemas() if each.function.name == "read_file")
            return [tool.model_copy(update={"function": tool.function.model_copy(update={"name": "cat"})})]

        def parse_message(self, message: LLMMessage) -> ParsedMessage:
            parsed = super().parse_message(message)
            return ParsedMessage([replace(call, tool_name="read_file") for call in parsed.tool_calls])

    (workspace / "a.txt").write_text("This is a.\n")
    model_server.enqueue(calls=[tool_call("cat", path="a.txt")])
    model_server.enqueue("Done.")
    agent = Agent(config)
    agent.format_handler = Renames()
    record = (await run_turn(agent, "read"))[-1].record
    await agent.aclose()
    assert [tool["function"]["name"] for tool in model_server.requests[0]["tools"]] == ["cat"]
    assert "This is a." in record.calls[0].output


async def test_a_call_that_a_format_handler_leaves_out_has_failed(config, model_server):
    class Forgets(APIToolFormatHandler):
        def parse_message(self, message: LLMMessage) -> ParsedMessage:
            return ParsedMessage()

    model_server.enqueue(calls=[tool_call("read_file", path="a.txt")])
    model_server.enqueue("Done.")
    agent = Agent(config)
    agent.format_handler = Forgets()
    call = (await run_turn(agent, "read"))[-1].record.calls[0]
    await agent.aclose()
    assert (call.status, call.output) == ("error", "The call was not resolved. Nothing was run.")
