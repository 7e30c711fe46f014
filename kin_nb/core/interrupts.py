"""asyncio.run for a program: what Ctrl-C ends properly, a supervisor, `timeout` and a closed terminal do too."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """By SIGTERM or SIGHUP. `exit_code`: 128 and the signal's number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Around what has to be cleaned up: the first SIGTERM or SIGHUP raises Interrupted here, those after it do nothing.

    In the main thread, and only where one has no handler yet and is not ignored (`nohup`).
    """
    ours = _unhandled()
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, _: FrameType | None) -> None:
    for each in _ENDING:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def _unhandled() -> list[signal.Signals]:
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in _ENDING if signal.getsignal(number) in (signal.SIG_DFL, _interrupt)]


def run_interruptible(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. The first SIGTERM or SIGHUP cancels it, and those after it disturb no cleaning up.

    One that has another handler than `interruptible`'s already, or is ignored (`nohup`), stays as it is. Raises
    Interrupted, KeyboardInterrupt for Ctrl-C, and what `main` raises.
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

    ours = {number: signal.getsignal(number) for number in _unhandled()}
    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if came:
            raise Interrupted(came[0]) from None
        raise
    finally:
        for number, before in ours.items():
            signal.signal(number, signal.SIG_IGN if came and before is _interrupt else before)
