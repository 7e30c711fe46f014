"""A turn that is cancelled while a program's function is awaited ends interrupted, whatever that function makes of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.events import BaseEvent, ToolResultEvent
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.loop_guard import CONTINUE
from kin_nb.core.middleware import MiddlewareAction, MiddlewareResult
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.ask_user import AskUser
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.core.test_callbacks import EDIT, LOOK, assert_each_call_is_answered_once

OTHER_EDIT = tool_call("edit_file", path="a.py", old_string="y = 2", new_string="y = 4")
QUESTION = tool_call("ask_user", question="Which?")


class Waiting:
    """A function that a program gives the agent. It waits until it is cancelled, `times` times, and then does `then`."""

    def __init__(self, then: Callable[[], Any], times: int = 1) -> None:
        self._then, self._left = then, times
        self.waits = asyncio.Event()

    async def __call__(self, *_: object) -> Any:
        while self._left:
            self.waits.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self._left -= 1
        return self._then()


def raising(error: type[BaseException], *args: object) -> Callable[[], Any]:
    def then() -> Any:
        raise error(*args)

    return then


def taking_back_the_cancel(answer: object) -> Callable[[], Any]:
    """As a dialog with a timeout of its own may do by mistake."""

    def then() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return answer

    return then


async def cancel(agent: Agent, callback: Waiting) -> None:
    turn = asyncio.create_task(run_turn(agent))
    await callback.waits.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


async def time_out(agent: Agent, callback: Waiting) -> None:
    async def expire() -> None:
        await callback.waits.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    async def turn() -> None:
        async with limit:
            await run_turn(agent)

    limit, expiring = asyncio.timeout(None), asyncio.create_task(expire())
    with pytest.raises(TimeoutError):
        await turn()
    await expiring
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def assert_interrupted(agent: Agent, server: ModelServer, *statuses: str) -> None:
    """No request was made after the cancel, and the next turn works: the server refuses calls without their one answer."""
    turn = agent.turns[-1]
    assert turn.outcome == "interrupted"
    assert [call.status for call in turn.calls] == list(statuses)
    assert_each_call_is_answered_once(agent.messages)
    agent.middleware_pipeline.clear()
    server.enqueue("Again.")
    await run_turn(agent)
    assert agent.turns[-1].outcome == "done"
    assert_each_call_is_answered_once(agent.messages)


WAYS = (cancel, time_out)
ERRORS = {"RuntimeError": raising(RuntimeError, "closed"), "SystemExit": raising(SystemExit, 1)}


def each(**ways: Callable[[], Any]) -> list[tuple[str, Callable[[], Any], Callable[..., Any]]]:
    """Each of these ends of a function, and each error, with each way to interrupt it."""
    return [(name, then, interrupt) for name, then in {**ways, **ERRORS}.items() for interrupt in WAYS]


async def test_no_answer_of_a_cancelled_approval_lets_a_call_run(subtests, agent, model_server, workspace):
    for name, then, interrupt in each(
        refuses=lambda: ApprovalDecision(False, "the dialog was closed", by="person"),
        approves=lambda: ApprovalDecision(True, by="person"),
        gives_true=lambda: True,
        approves_and_takes_the_cancel_back=taking_back_the_cancel(ApprovalDecision(True, by="person")),
    ):
        with subtests.test(name=name, interrupt=interrupt.__name__):
            callback = Waiting(then)
            agent.set_ask(callback)
            model_server.enqueue(calls=[EDIT, OTHER_EDIT])
            await interrupt(agent, callback)
            assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
            assert [call.decision for call in agent.turns[-1].calls] == [None, None]
            assert agent.turns[-1].warnings == ()
            await assert_interrupted(agent, model_server, "interrupted", "interrupted")


async def test_an_answer_to_a_cancelled_question_is_not_taken(subtests, agent, model_server):
    for name, then, interrupt in each(
        answers=lambda: "SQLite", refuses=raising(ToolError, "nobody"), takes_back=taking_back_the_cancel("SQLite")
    ):
        with subtests.test(name=name, interrupt=interrupt.__name__):
            callback = Waiting(then)
            agent.tool_manager.register({"ask_user": AskUser})
            agent.approvals.ask_question = callback
            model_server.enqueue(calls=[QUESTION])
            await interrupt(agent, callback)
            await assert_interrupted(agent, model_server, "interrupted")


async def test_a_cancelled_answer_about_a_loop_is_ignored(subtests, agent, model_server):
    for name, then, interrupt in each(allows=lambda: CONTINUE, refuses=raising(ToolError, "no user")):
        with subtests.test(name=name, interrupt=interrupt.__name__):
            callback = Waiting(then)
            agent.approvals.ask_question = callback
            for _ in range(8):
                model_server.enqueue(calls=[LOOK])
            await interrupt(agent, callback)
            await assert_interrupted(agent, model_server, *["ok"] * 8)


async def test_middleware_that_was_cancelled_neither_continues_nor_stops(subtests, agent, model_server):
    rows = each(
        continues=MiddlewareResult,
        stops=lambda: MiddlewareResult(MiddlewareAction.STOP, reason="enough"),
        gives_true=lambda: True,
        raises_an_error_of_ours=raising(BackendError, "gone", "ask again"),
    )
    for hook, (name, then, interrupt) in itertools.product(("before_turn", "after_turn"), rows):
        with subtests.test(hook=hook, name=name, interrupt=interrupt.__name__):

            class Middleware:
                pass

            callback, middleware = Waiting(then), Middleware()
            setattr(middleware, hook, callback)
            agent.middleware_pipeline.add(middleware)
            if hook == "after_turn":
                model_server.enqueue(calls=[LOOK])
            await interrupt(agent, callback)
            await assert_interrupted(agent, model_server, *(["ok"] if hook == "after_turn" else []))


# Cancelled more than once.


async def cancel_each_time_it_waits(turn: asyncio.Task[Any], callback: Waiting, times: int) -> None:
    for _ in range(times):
        await callback.waits.wait()
        callback.waits.clear()
        turn.cancel()


async def test_each_further_cancel_reaches_a_function_that_waits_again(subtests, agent, model_server):
    for times in [2, 3]:
        for call in [EDIT, QUESTION]:
            with subtests.test(times=times, call=call):
                callback = Waiting(lambda: ApprovalDecision(True), times)
                agent.tool_manager.register({"ask_user": AskUser})
                agent.approvals.ask_question = callback
                agent.set_ask(callback)
                model_server.enqueue(calls=[call])
                turn = asyncio.create_task(run_turn(agent))
                await cancel_each_time_it_waits(turn, callback, times)
                with pytest.raises(asyncio.CancelledError):
                    await turn
                await assert_interrupted(agent, model_server, "interrupted")


# The consumer leaves.


class _Nothing(BaseModel):
    pass


class _Always(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class AfterTheQuestion(BaseTool[_Nothing, _Nothing, _Always, BaseToolState]):
    """Ends when the approval callback of the call beside it waits: the consumer can leave then."""

    description = "Wait"
    asked: Waiting

    def accesses(self, args: _Nothing) -> Accesses:
        return Accesses()

    async def run(self, args: _Nothing) -> _Nothing:
        await self.asked.waits.wait()
        return _Nothing()


async def leave_at_a_result(agent: Agent) -> list[BaseEvent]:
    seen: list[BaseEvent] = []
    async with aclosing(agent.act("go")) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ToolResultEvent):
                break
    return seen


def asked_beside(agent: Agent, server: ModelServer, callback: Waiting) -> None:
    class Beside(AfterTheQuestion):
        asked = callback

    agent.set_ask(callback)
    agent.tool_manager.register({"beside": Beside})
    server.enqueue(calls=[tool_call("beside"), EDIT])


async def test_when_the_consumer_leaves_no_answer_lets_a_call_run(subtests, agent, model_server, workspace):
    for name, then, _ in each(
        refuses=lambda: ApprovalDecision(False, "the dialog was closed", by="person"),
        approves=lambda: ApprovalDecision(True, by="person"),
        approves_and_takes_the_cancel_back=taking_back_the_cancel(ApprovalDecision(True, by="person")),
    )[::2]:
        with subtests.test(name=name):
            asked_beside(agent, model_server, Waiting(then))
            await leave_at_a_result(agent)
            assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
            await assert_interrupted(agent, model_server, "ok", "interrupted")


async def test_a_cancel_while_the_turn_is_closed_is_not_lost(agent, model_server):
    callback = Waiting(lambda: ApprovalDecision(True, by="person"), 2)
    asked_beside(agent, model_server, callback)
    turn = asyncio.create_task(leave_at_a_result(agent))
    await callback.waits.wait()
    callback.waits.clear()
    await callback.waits.wait()  # cancelled by the closing, and waiting again
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await assert_interrupted(agent, model_server, "ok", "interrupted")
