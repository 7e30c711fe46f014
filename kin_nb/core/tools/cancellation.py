"""Cancel tasks, and finish work that must not be interrupted, however often the turn is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def cancel_and_wait(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel the running tasks and wait for their end, so that a turn leaves none behind.

    A further cancellation is passed on to the tasks that still run, and raised when all have ended. So a callback that caught
    the first one and waits again is cancelled again.
    """
    cancelled = False
    for task in tasks:
        task.cancel()
    while running := {task for task in tasks if not task.done()}:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            cancelled = True
            for task in running:
                task.cancel()
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
    if cancelled:
        raise asyncio.CancelledError


async def finish_shielded(work: Awaitable[T]) -> T:
    """Return the result of `work`, which must be short, even if this task is cancelled. The caller raises CancelledError."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()
