"""Functions that a program gives an agent, and that fail: a warning, and every tool call is answered exactly once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.compat.tool_registry import ToolRegistry
from kin_nb.core.config import KinConfig
from kin_nb.core.context.compaction import CompactionResult
from kin_nb.core.events import ApprovalDecisionEvent, BaseEvent, ErrorEvent, TurnEndEvent, WarningEvent
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.middleware import MiddlewareAction, MiddlewareResult, ResetReason
from kin_nb.core.modes import AgentMode
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, ToolError
from kin_nb.core.tools.base import BaseTool
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


class OwnError(BaseException):
    """Not an Exception, as those of a test framework that ends a test."""


ERRORS = [ValueError("no"), SystemExit(3), asyncio.CancelledError(), UnprintableError(), OwnError("no")]


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
async def test_an_observer_that_fails_at_any_message_changes_nothing(subtests, start, model_server, every):
    """`every`: each error at every n-th message, each error at other ones."""
    for number, error in enumerate(ERRORS):
        for at in range(number % every, MESSAGES, every):
            with subtests.test(error=type(error).__name__, at=at):
                seen: list[LLMMessage] = []

                def observe(
                    message: LLMMessage, at: int = at, error: BaseException = error, seen: list[LLMMessage] = seen
                ) -> None:
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


async def test_an_interrupt_in_an_observer_leaves_every_call_answered(subtests, start, model_server):
    """`close()` of a generator is the interrupt here: a KeyboardInterrupt would end the loop of the tests too."""
    for often in [1, MESSAGES]:
        for at in range(1, MESSAGES):
            with subtests.test(often=often, at=at):
                seen: list[LLMMessage] = []

                def observe(
                    message: LLMMessage, at: int = at, often: int = often, seen: list[LLMMessage] = seen
                ) -> None:
                    seen.append(message)
                    if at < len(seen) <= at + often:
                        raise GeneratorExit

                model_server.clear()
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


async def waits_for_a_dialog_that_is_closed(*_: Any) -> Any:
    dialog = asyncio.get_running_loop().create_future()
    dialog.cancel()
    return await dialog


def raises_its_own(*_: Any) -> Any:
    raise OwnError("no such button")


async def exits_later(*_: Any) -> Any:
    raise SystemExit(3)


CALLBACKS = [fails, fails_later, gives_nothing, waits_for_a_dialog_that_is_closed, raises_its_own, exits_later]


async def test_an_approval_callback_that_fails_is_a_refusal(subtests, start, model_server, workspace):
    for callback in CALLBACKS:
        with subtests.test(callback=callback):
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


async def test_a_turn_that_is_cancelled_while_someone_is_asked_is_interrupted(start, model_server):
    asked = asyncio.Event()

    async def never_answers(*_: Any) -> Any:
        asked.set()
        await asyncio.get_running_loop().create_future()

    agent = start()
    agent.set_approval_callback(never_answers)
    model_server.enqueue(calls=[EDIT, LOOK])
    turn = asyncio.create_task(run_turn(agent))
    await asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (agent.turns[-1].outcome, agent.turns[-1].calls[0].status) == ("interrupted", "interrupted")
    assert_each_call_is_answered_once(agent.messages)


def test_an_interrupt_in_an_approval_callback_ends_the_loop_and_leaves_every_call_answered(config, model_server):
    def interrupts(*_: Any) -> Any:
        raise KeyboardInterrupt

    async def turn() -> None:
        agent.set_approval_callback(interrupts)
        try:
            await run_turn(agent)
        finally:
            await agent.aclose()

    agent = Agent(config)
    model_server.enqueue(calls=[EDIT, LOOK])
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(turn())
    assert agent.turns[-1].outcome == "interrupted"
    assert_each_call_is_answered_once(agent.messages)


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
    def __init__(self, hook: str, at: int = 1, error: BaseException | None = None) -> None:
        self.hook, self.left = hook, at
        self.error = error or LookupError("nothing there")

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
                raise self.error
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


async def test_whatever_middleware_raises_ends_the_turn_with_an_error_that_names_it(subtests, start, model_server):
    for error in ERRORS:
        for hook in ["before_turn", "after_turn"]:
            with subtests.test(error=error, hook=hook):
                agent = start()
                agent.middleware_pipeline.add(Failing(hook, 1, error))
                model_server.enqueue(calls=[LOOK, OTHER])
                events = await run_turn(agent)
                (told,) = [event for event in events if isinstance(event, ErrorEvent)]
                assert told.message.startswith(f"Middleware: Failing.{hook} failed: {type(error).__name__}")
                assert isinstance(events[-1], TurnEndEvent)
                assert_each_call_is_answered_once(agent.messages)


async def test_middleware_that_gives_nothing_is_named_too(start, model_server):
    class Nothing:
        async def before_turn(self, context: object) -> None:
            return None

    agent = start()
    agent.middleware_pipeline.add(Nothing())
    (error,) = [event for event in await run_turn(agent) if isinstance(event, ErrorEvent)]
    assert "Nothing.before_turn failed: TypeError: returned NoneType, expected a MiddlewareResult" in error.message


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


# Errors whose own text fails.


class _Args(BaseModel):
    path: str = ""


class Fails(BaseTool[_Args, _Args, BaseToolConfig, BaseToolState]):
    """Fails at the moment that its argument names."""

    description = "Fail"

    def accesses(self, args: _Args) -> Accesses:
        if args.path == "accesses":
            raise UnprintableError
        return Accesses()

    async def run(self, args: _Args) -> _Args:
        raise UnprintableError if args.path == "run" else UnprintableToolError


class UnprintableToolError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_a_tool_whose_error_has_no_text_is_answered(subtests, start, model_server):
    for moment, said in [
        ("accesses", "UnprintableError"),
        ("run", "UnprintableError"),
        ("tool error", "UnprintableToolError"),
    ]:
        with subtests.test(moment=moment, said=said):
            agent = start(AgentMode.AUTO_APPROVE)
            agent.tool_manager.add(Fails)
            model_server.enqueue(calls=[tool_call("fails", path=moment)])
            model_server.enqueue("Failed.")
            await run_turn(agent)
            assert agent.turns[0].outcome == "done"
            assert [(call.status, call.output) for call in agent.turns[0].calls] == [("error", f"fails failed: {said}")]
            assert_each_call_is_answered_once(agent.messages)
            if moment == "run":
                with pytest.raises(ToolError, match=r"^fails failed: UnprintableError$"):
                    await ToolRegistry(agent.tool_manager).execute("fails", {"path": moment})


async def test_a_turn_that_ends_with_an_error_without_text_is_recorded(start, config):
    class Backend:
        async def __aenter__(self) -> Backend:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        def complete_streaming(self, **_: Any) -> Any:
            raise UnprintableError

    agent = start(backend=Backend())
    with pytest.raises(UnprintableError):
        await run_turn(agent)
    assert (agent.turns[0].outcome, agent.turns[0].message) == ("error", "kin_nb failed: UnprintableError")


# Compacting, as a program asks for it.


async def test_middleware_that_fails_at_a_compaction_is_a_warning_and_the_summary_stands(subtests, start, model_server):
    for error in ERRORS:
        with subtests.test(error=error):

            class Forgetful:
                def reset(self, reset_reason: ResetReason, error: BaseException = error) -> None:
                    raise error

            agent = start()
            await two_turns(agent, model_server)
            agent.middleware_pipeline.add(Forgetful())
            model_server.enqueue("Summed up.")
            assert await agent.compact() == "Summed up."
            assert "Summed up." in str(agent.messages[1].content)
            model_server.enqueue("On.")
            (warning,) = warnings(await run_turn(agent))
            assert "Middleware: " in warning
            assert f"Forgetful.reset failed: {type(error).__name__}" in warning
            assert agent.turns[-1].outcome == "done"


async def test_a_strategy_that_fails_raises_its_own_error_and_the_conversation_is_as_it_was(
    subtests, start, model_server
):
    for error in [ValueError("no"), SystemExit(3), UnprintableError()]:
        with subtests.test(error=error):

            class Strategy:
                async def compact(
                    self, messages: list[LLMMessage], error: BaseException = error, **_: Any
                ) -> CompactionResult:
                    messages.clear()
                    raise error

            agent = start()
            await two_turns(agent, model_server)
            agent.use(compaction=Strategy())
            before, session = list(agent.messages), agent.session_id
            with pytest.raises(type(error)):
                await agent.compact()
            assert (agent.messages, agent.session_id, agent.moves) == (before, session, [])
            model_server.enqueue("On.")
            await run_turn(agent)
            assert agent.turns[-1].outcome == "done"
