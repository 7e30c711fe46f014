"""Functions that a program gives an agent, and that fail: a warning, and every tool call is answered exactly once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.events import ApprovalDecisionEvent, BaseEvent, ErrorEvent, TurnEndEvent, WarningEvent
from kin_nb.core.middleware import MiddlewareAction, MiddlewareResult
from kin_nb.core.modes import AgentMode
from kin_nb.core.types import LLMMessage, Role
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

LOOK, OTHER = tool_call("read_file", path="a.py"), tool_call("list_dir", path=".")
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")
MESSAGES = 7
"""Of the conversation below: system, user, reply, two answers, reply, and one for the next prompt."""


def assert_each_call_is_answered_once(messages: list[LLMMessage]) -> None:
    asked = [call.id for message in messages for call in message.tool_calls or ()]
    answered = Counter(message.tool_call_id for message in messages if message.role is Role.tool)
    assert answered == Counter(asked)


async def two_turns(agent: Agent, server: ModelServer) -> list[BaseEvent]:
    """The server refuses a history in which a call is not answered exactly once."""
    server.enqueue(calls=[LOOK, OTHER])
    server.enqueue("Seen.")
    events = await run_turn(agent)
    server.enqueue("Again.")
    return [*events, *await run_turn(agent)]


def warnings(events: list[BaseEvent]) -> list[str]:
    return [event.message for event in events if isinstance(event, WarningEvent)]


@pytest.fixture
async def start(config: KinConfig):
    """Make an agent; it is closed afterwards."""
    agents: list[Agent] = []

    def start(mode: AgentMode = AgentMode.DEFAULT, **options: Any) -> Agent:
        agents.append(Agent(config, mode, **options))
        return agents[-1]

    yield start
    for agent in agents:
        await agent.aclose()


# Observers of messages.


async def test_the_documented_observer_meets_a_reply_without_text(start, model_server):
    def message_observer(message: LLMMessage) -> None:
        print(f"{message.role}: {message.content[:50]}")

    agent = start(message_observer=message_observer)
    events = await two_turns(agent, model_server)
    (warning,) = warnings(events)
    assert "message_observer failed: TypeError: 'NoneType' object is not subscriptable" in warning
    assert warning in agent.turns[0].warnings
    assert [turn.outcome for turn in agent.turns] == ["done", "done"]
    assert_each_call_is_answered_once(agent.messages)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ERRORS = [ValueError("no"), SystemExit(3), asyncio.CancelledError(), UnprintableError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("at", range(MESSAGES))
async def test_an_observer_that_fails_at_any_message_changes_nothing(start, model_server, at, error):
    seen: list[LLMMessage] = []

    def observe(message: LLMMessage) -> None:
        seen.append(message)
        if len(seen) == at + 1:
            raise error

    agent = start(message_observer=observe)
    events = await two_turns(agent, model_server)
    assert len(warnings(events)) == 1
    assert seen == agent.messages
    assert_each_call_is_answered_once(agent.messages)
    calls = [call for turn in agent.turns for call in turn.calls]
    assert [call.status for call in calls] == ["ok", "ok"]


async def test_an_observer_that_always_fails_is_one_warning(start, model_server):
    def observe(message: LLMMessage) -> None:
        raise RuntimeError

    agent = start(message_observer=observe)
    events = await two_turns(agent, model_server)
    (warning,) = warnings(events)
    assert "observe failed: RuntimeError. " in warning
    assert_each_call_is_answered_once(agent.messages)


@pytest.mark.parametrize("often", [1, MESSAGES])
@pytest.mark.parametrize("at", range(1, MESSAGES))
async def test_an_interrupt_in_an_observer_leaves_every_call_answered(start, model_server, at, often):
    """`close()` of a generator is the interrupt here: a KeyboardInterrupt would end the loop of the tests too."""
    seen: list[LLMMessage] = []

    def observe(message: LLMMessage) -> None:
        seen.append(message)
        if at < len(seen) <= at + often:
            raise GeneratorExit

    agent = start(message_observer=observe)
    with contextlib.suppress(BaseException):
        await two_turns(agent, model_server)
    assert_each_call_is_answered_once(agent.messages)
    recorded = [call.id for turn in agent.turns for call in turn.calls]
    assert recorded == [call.id for message in agent.messages for call in message.tool_calls or ()]


async def test_an_observer_that_is_a_coroutine_function_is_one_warning(start, model_server):
    async def observe(message: LLMMessage) -> None:
        raise AssertionError("it never runs")

    agent = start(message_observer=observe)
    (warning,) = warnings(await two_turns(agent, model_server))
    assert "it must be a plain function" in warning
    assert_each_call_is_answered_once(agent.messages)


async def test_a_key_in_the_text_of_an_observers_error_is_not_shown(start, model_server):
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"

    def observe(message: LLMMessage) -> None:
        raise KeyError(key)

    agent = start(message_observer=observe)
    (warning,) = warnings(await two_turns(agent, model_server))
    assert "observe failed: KeyError" in warning
    assert key not in warning


# Who is asked.


def fails(*_: Any) -> Any:
    raise ValueError("no such button")


async def fails_later(*_: Any) -> Any:
    raise ValueError("no such button")


def gives_nothing(*_: Any) -> Any:
    return None


@pytest.mark.parametrize("callback", [fails, fails_later, gives_nothing])
async def test_an_approval_callback_that_fails_is_a_refusal(start, model_server, workspace, callback):
    agent = start()
    agent.set_approval_callback(callback)
    model_server.enqueue(calls=[EDIT, LOOK])
    model_server.enqueue("I may not.")
    events = await run_turn(agent)
    edit, look = agent.turns[-1].calls
    assert (edit.status, edit.decision.verdict, edit.decision.by) == ("refused", "deny", "headless")
    assert look.status == "ok"
    assert f"the approval callback {callback.__qualname__} failed: " in edit.output
    assert len(warnings(events)) == 1
    assert [event.decision.approved for event in events if isinstance(event, ApprovalDecisionEvent)] == [False]
    assert_each_call_is_answered_once(agent.messages)
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"


async def test_an_approver_that_returns_something_else_is_a_refusal(start, model_server, workspace):
    async def ask(request: object) -> Any:
        return True

    agent = start()
    agent.set_ask(ask)
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("I may not.")
    await run_turn(agent)
    (call,) = agent.turns[-1].calls
    assert call.status == "refused"
    assert "returned bool, not an ApprovalDecision" in call.output
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"


# Middleware.


class Failing:
    def __init__(self, hook: str, at: int = 1) -> None:
        self.hook, self.left = hook, at

    async def before_turn(self, context: object) -> MiddlewareResult:
        return self._result("before_turn")

    async def after_turn(self, context: object) -> MiddlewareResult:
        return self._result("after_turn")

    def reset(self, reset_reason: object = None) -> None:
        self._result("reset")

    def _result(self, hook: str) -> Any:
        if hook == self.hook:
            self.left -= 1
            if self.left == 0:
                raise LookupError("nothing there")
        return MiddlewareResult(MiddlewareAction.CONTINUE)


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("hook", ["before_turn", "after_turn"])
async def test_middleware_that_fails_ends_the_turn_with_an_error_that_names_it(start, model_server, hook, at):
    agent = start()
    agent.middleware_pipeline.add(Failing(hook, at))
    model_server.enqueue(calls=[LOOK, OTHER])
    model_server.enqueue("Seen.")
    events = await run_turn(agent)
    (error,) = [event for event in events if isinstance(event, ErrorEvent)]
    assert error.message == f"Middleware: Failing.{hook} failed: LookupError: nothing there"
    assert isinstance(events[-1], TurnEndEvent)
    assert (agent.turns[-1].outcome, agent.turns[-1].message) == ("error", error.message)
    assert_each_call_is_answered_once(agent.messages)
    model_server.enqueue("Again.")
    await run_turn(agent)
    assert agent.turns[-1].outcome == "done"
    assert_each_call_is_answered_once(agent.messages)


async def test_middleware_that_gives_nothing_is_named_too(start, model_server):
    class Nothing:
        async def before_turn(self, context: object) -> None:
            return None

    agent = start()
    agent.middleware_pipeline.add(Nothing())
    (error,) = [event for event in await run_turn(agent) if isinstance(event, ErrorEvent)]
    assert "Nothing.before_turn failed: TypeError: it returned NoneType, not a MiddlewareResult" in error.message


async def test_middleware_that_cannot_be_reset_is_a_warning_and_the_conversation_is_cleared(start, model_server):
    agent = start()
    agent.middleware_pipeline.add(Failing("reset"))
    await two_turns(agent, model_server)
    first = agent.session_id
    await agent.clear_history()
    assert (len(agent.messages), agent.session_id == first) == (1, False)
    model_server.enqueue("Fresh.")
    (warning,) = warnings(await run_turn(agent))
    assert "Failing.reset failed: LookupError: nothing there" in warning
