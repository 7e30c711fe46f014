"""Looking at an object may run its own code: `within` puts an end to that."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TooSlowError(Exception):
    """It did not end in time."""


class _TimeUpError(BaseException):
    """Not an Exception: `except Exception` in the code that hangs must not swallow it."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """`work()`. Raises TooSlowError when it has not ended in time, and whatever it raises itself.

    Without a limit outside the main thread, and where SIGALRM belongs to code that is not Python. A timer that was set
    before goes on afterwards. What hangs in compiled code is not stopped.
    """
    handler = signal.getsignal(signal.SIGALRM)
    if threading.current_thread() is not threading.main_thread() or handler is None:
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
        raise TooSlowError from None
    finally:
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - started), 0.001), interval)


def _time_up(_signum: int, _frame: object) -> None:
    raise _TimeUpError
