"""asyncio.run for a program: what Ctrl-C ends properly, a supervisor, `timeout` and a closed terminal do too."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """By SIGTERM or SIGHUP. `exit_code`: 128 and the signal's number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def run_interruptible(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. The first SIGTERM or SIGHUP cancels it, and those after it disturb no cleaning up.

    One that has a handler already, or is ignored (`nohup`), stays as it is. Raises Interrupted, KeyboardInterrupt for
    Ctrl-C, and what `main` raises.
    """
    came: list[int] = []

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def cancel(number: int, _: FrameType | None) -> None:
            came.append(number)
            if task is not None and len(came) == 1:
                loop.call_soon_threadsafe(task.cancel)

        for number in ours:
            signal.signal(number, cancel)
        return await main

    in_main_thread = threading.current_thread() is threading.main_thread()
    both = (signal.SIGTERM, signal.SIGHUP) if in_main_thread else ()
    ours = [number for number in both if signal.getsignal(number) == signal.SIG_DFL]
    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if came:
            raise Interrupted(came[0]) from None
        raise
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
