"""Looking at an object runs on the main thread and may run the object's own code: `run_within` puts an end to that.

`interrupt_after` is for code that the model runs.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kin_nb.core.callback_errors import must_propagate
from kin_nb.core.tool_types import ToolError
from kin_nb.notebook.main_thread_loop import SubmitMain

T = TypeVar("T")

main_thread: ContextVar[SubmitMain | None] = ContextVar("main_thread", default=None)
"""Set for each turn, and inherited by the tasks of its calls."""
runs_for_tool: ContextVar[bool] = ContextVar("runs_for_tool", default=False)
"""Set on that thread while it works for a call, and inherited by what such work leaves for the notebook's event loop."""


async def on_main_thread(work: Callable[[], T]) -> T:
    """`work()`, on that thread. Raises what it raises; ToolError when no cell waits, or the person stopped it."""
    submit = main_thread.get()
    if submit is None:
        raise ToolError("The notebook's namespace cannot be used: no cell is waiting for this turn.")
    try:
        return await submit(partial(_run_for_tool, work))
    except asyncio.CancelledError as error:
        if must_propagate(error):
            raise
        raise ToolError("It was interrupted.") from None  # the cell waits no more


def _run_for_tool(work: Callable[[], T]) -> T:
    token = runs_for_tool.set(True)
    try:
        return work()
    finally:
        runs_for_tool.reset(token)


_AGAIN = 1.0
"""Seconds between two KeyboardInterrupts, for code that catches one and continues."""


class TimeLimitError(Exception):
    """It did not end in time."""


class _TimeUpError(BaseException):
    """Not an Exception: `except Exception` in the code that hangs must not swallow it."""


def run_within(seconds: float, work: Callable[[], T]) -> T:
    """`work()`. Raises TimeLimitError when it has not ended in time, and whatever it raises itself.

    Without a limit outside the main thread, and where SIGALRM belongs to code that is not Python. A timer that was set
    before continues afterwards. What hangs in compiled code is not stopped.
    """
    handler = signal.getsignal(signal.SIGALRM)
    if not _can_ring():
        return work()
    started = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, _time_up)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeUpError:
        raise TimeLimitError from None
    finally:
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - started), 0.001), interval)


@dataclass
class TimeLimit:
    """`expired`: the time was, whatever the code made of it."""

    expired: bool = False


@contextmanager
def interrupt_after(seconds: float | None) -> Iterator[TimeLimit]:
    """A KeyboardInterrupt in the code within when the time is up, as an interrupt gives it; again each second until it ends.

    Without a limit where `run_within` has none, and where the code takes SIGALRM for itself. A timer of before is not kept.
    """
    limit = TimeLimit()
    if seconds is None or not _can_ring():
        yield limit
        return

    def ring(_signum: int, _frame: object) -> None:
        limit.expired = True
        raise KeyboardInterrupt(f"its timeout of {seconds:g} s was up")

    handler = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
            yield limit
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # it may have rung on the way to the line above
        signal.signal(signal.SIGALRM, handler)


def _can_ring() -> bool:
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGALRM) is not None


def _time_up(_signum: int, _frame: object) -> None:
    raise _TimeUpError
