"""EventQueue: what several running calls have to tell, as one stream for whoever shows the turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from kin_nb.core.events import BaseEvent


class EventQueue:
    """Belongs to one event loop. Events come out in the order in which they were put in."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[BaseEvent, asyncio.Future[None] | None] | None] = asyncio.Queue()
        self.is_closed = False

    def close(self) -> None:
        """Nobody reads any more: what is told from now on is not waited for."""
        self.is_closed = True

    def put(self, event: BaseEvent) -> None:
        """For what need not be seen before the caller goes on: live output."""
        self._queue.put_nowait((event, None))

    async def told(self, event: BaseEvent) -> None:
        """Returns when the reader has dealt with `event` and wants the next. Raises CancelledError when nobody reads any more."""
        if self.is_closed:
            raise asyncio.CancelledError
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((event, taken))
        await taken

    async def until_done(self, tasks: Sequence[asyncio.Task[None]]) -> AsyncGenerator[BaseEvent, None]:
        """What is put in until all `tasks` have ended. Raises what the first of them raised, after the last has ended."""
        for task in tasks:
            task.add_done_callback(lambda _: self._queue.put_nowait(None))
        running = len(tasks)
        while running:
            item = await self._queue.get()
            if item is None:
                running -= 1
                continue
            event, taken = item
            yield event
            if taken is not None and not taken.done():
                taken.set_result(None)
        for task in tasks:
            task.result()
