"""Stop a program cleanly on SIGTERM and SIGHUP (a supervisor, `timeout`, a closed terminal), as Ctrl-C does."""

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
    """SIGTERM or SIGHUP was received. `exit_code`: 128 plus the signal's number, the convention of shells."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the block at the first SIGTERM or SIGHUP, so that it can clean up; ignore later ones.

    Only in the main thread, and only for signals that have no handler and are not ignored (`nohup`).
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
    """Run `main` and return its result. The first SIGTERM or SIGHUP cancels it; later ones are ignored during cleanup.

    A signal that is ignored (`nohup`), or has another handler than `interruptible`'s, is left alone. Raises Interrupted,
    KeyboardInterrupt for Ctrl-C, and what `main` raises.
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
