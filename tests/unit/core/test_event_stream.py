"""Events of a coroutine, one at a time, in the task of whoever takes them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from contextvars import ContextVar

import pytest

from kin_nb.core.event_stream import ConsumerLeft, Emit, event_stream
from kin_nb.core.events import WarningEvent

VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="")


def warning(text: str) -> WarningEvent:
    return WarningEvent(message=text)


async def test_it_continues_when_the_next_event_is_asked_for():
    done: list[str] = []

    async def work(emit: Emit) -> None:
        for name in ("a", "b"):
            await asyncio.sleep(0)
            await emit(warning(name))
            done.append(name)

    seen = [(event.message, list(done)) async for event in event_stream(work)]
    assert seen == [("a", []), ("b", ["a"])]
    assert done == ["a", "b"]


async def test_it_runs_in_the_task_and_the_context_of_who_takes_them():
    async def work(emit: Emit) -> None:
        await emit(warning(f"{VARIABLE.get()} {asyncio.current_task() is task}"))

    task = asyncio.current_task()
    VARIABLE.set("mine")
    assert [event.message async for event in event_stream(work)] == ["mine True"]


async def test_what_the_work_raises_reaches_who_takes_the_events(subtests):
    for error in [ValueError, KeyboardInterrupt, SystemExit]:
        with subtests.test(error=error):

            async def work(emit: Emit, error: type[BaseException] = error) -> None:
                await emit(warning("a"))
                raise error

            events = event_stream(work)
            assert (await anext(events)).message == "a"
            with pytest.raises(error):
                await anext(events)


async def test_closed_early_the_work_cleans_up_and_may_wait_for_it():
    done: list[str] = []

    async def inner(emit: Emit) -> None:
        try:
            await emit(warning("a"))
        finally:
            await asyncio.sleep(0)
            await emit(warning("nobody gets this"))
            done.append("cleaned up")

    async def work(emit: Emit) -> None:
        try:
            await inner(emit)
        except ConsumerLeft:
            done.append("told")
            raise

    async with aclosing(event_stream(work)) as events:
        async for _ in events:
            break
    assert done == ["cleaned up", "told"]


async def test_an_error_while_it_cleans_up_is_raised():
    async def work(emit: Emit) -> None:
        try:
            await emit(warning("a"))
        finally:
            raise ValueError("full")

    events = event_stream(work)
    await anext(events)
    with pytest.raises(ValueError, match="full"):
        await events.aclose()


async def test_cancelled_while_it_waits_the_work_is_cancelled():
    waiting, ended = asyncio.Event(), []

    async def work(emit: Emit) -> None:
        await emit(warning("a"))
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    async def take() -> None:
        async for _ in event_stream(work):
            pass

    task = asyncio.create_task(take())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_a_cancel_that_the_work_undoes_is_undone():
    async def work(emit: Emit) -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await emit(warning("still here"))

    async def take() -> list[str]:
        return [event.message async for event in event_stream(work)]

    waiting = asyncio.Event()
    task = asyncio.create_task(take())
    await waiting.wait()
    task.cancel()
    assert await task == ["still here"]
