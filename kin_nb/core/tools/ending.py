"""Ending tasks, and letting work come to its end, however often the turn around them is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and wait for it: nothing of a turn is left behind it.

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


async def to_its_end(work: Awaitable[T]) -> T:
    """Its result: a look at the files is short, and nothing of a call's result is lost."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()
