"""Cancelling tasks, and finishing work that must not be cut short, however often the turn around them is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def cancel_and_wait(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel the tasks that still run and wait for their end: a turn leaves none behind.

    A cancellation meanwhile is passed on to what still runs, and raised when all have ended: a callback that caught the first
    one and waits again is cancelled again.
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
            task.exception()  # seen, whether or not anybody asks for it
    if cancelled:
        raise asyncio.CancelledError


async def finish_shielded(work: Awaitable[T]) -> T:
    """Return the result of `work`, which is short, even if this task is cancelled meanwhile. The caller raises that itself."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()
