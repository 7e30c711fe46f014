"""One timer for a reply: it ends waits that take too long, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kin_nb.core.llm.backend.response_reader import IdleTimeout as Patience
from kin_nb.core.llm.backend.response_reader import StreamEnd as End


async def silent() -> AsyncGenerator[dict[str, Any], None]:
    await asyncio.Event().wait()
    yield {}


async def several(count: int) -> AsyncGenerator[dict[str, Any], None]:
    for number in range(count):
        yield {"n": number}
    await asyncio.Event().wait()


async def test_a_wait_that_takes_too_long_is_ended_and_the_task_continues() -> None:
    patience = Patience()
    assert await patience.next(silent(), 0.01) is End.SILENT
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)  # would raise if a cancellation were still on its way


async def test_time_between_waits_does_not_count() -> None:
    patience, events = Patience(), several(2)
    assert await patience.next(events, 0.01) == {"n": 0}
    await asyncio.sleep(0.03)  # a slow reader; the timer fires meanwhile
    assert await patience.next(events, 5) == {"n": 1}
    assert await patience.next(events, 0.01) is End.SILENT


async def test_many_waits_set_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    real, timers = loop.call_at, []
    monkeypatch.setattr(loop, "call_at", lambda *a, **k: timers.append(a) or real(*a, **k))
    patience, events = Patience(), several(100)
    for number in range(100):
        assert await patience.next(events, 10) == {"n": number}
    patience.close()
    assert len(timers) == 1


async def test_a_shorter_wait_is_ended_in_its_own_time() -> None:
    patience, events = Patience(), several(1)
    await patience.next(events, 60)
    async with asyncio.timeout(60):
        assert await patience.next(events, 0.01) is End.SILENT


async def test_a_longer_wait_outlives_the_timer_that_was_set() -> None:
    patience, go = Patience(), asyncio.Event()

    async def late() -> AsyncGenerator[dict[str, Any], None]:
        yield {"n": 0}
        await go.wait()
        yield {"n": 1}

    events = late()
    await patience.next(events, 0.01)
    asyncio.get_running_loop().call_later(0.03, go.set)
    assert await patience.next(events, 5) == {"n": 1}


async def test_a_cancellation_from_outside_is_one() -> None:
    task = asyncio.create_task(Patience().next(silent(), 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
