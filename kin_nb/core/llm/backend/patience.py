"""Waiting for the next event of a reply, but not for ever: one timer for the reply, not one for each event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Any


class End(Enum):
    """How the events came to their end, in words for the person."""

    CLOSED = "the connection closed"
    BROKEN = "the connection broke"
    GARBLED = "what came was not JSON"
    SILENT = "nothing came"


class Patience:
    """Waits in the task that calls `next`. The timer looks when it fires whether the wait that it was set for is over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._deadline = 0.0
        self._expired = False

    async def next(self, events: AsyncGenerator[dict[str, Any], None], seconds: float) -> dict[str, Any] | End:
        """The next payload, or why there is none. How bad an end is depends on what came before: no exception here."""
        import httpx  # noqa: PLC0415  (first use)

        try:
            return await self._within(events, seconds)
        except StopAsyncIteration:
            return End.CLOSED
        except (TimeoutError, httpx.ReadTimeout):
            return End.SILENT
        except httpx.RequestError:
            return End.BROKEN
        except ValueError:
            return End.GARBLED

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _within(self, events: AsyncGenerator[dict[str, Any], None], seconds: float) -> dict[str, Any]:
        """Raises TimeoutError, with the cancellation that ended the wait taken back, as asyncio.timeout does."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine runs in a task)
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()
        cancelled_before = task.cancelling()
        self._waiting, self._expired = task, False
        try:
            return await anext(events)
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None

    def _set_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiting is None:
            return  # the next wait sets it anew
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._expired = True
            self._waiting.cancel()
