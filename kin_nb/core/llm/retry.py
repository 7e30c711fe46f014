"""Trying again where that helps (seed 000's names): never after the first item, never what was refused for good."""

from __future__ import annotations

import asyncio
import random
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from kin_nb.core.llm.errors import BackendError, is_retryable, retry_after_seconds, root_cause

LONGEST_WAIT = 60.0  # seconds: a server that asks for more is not asked again
FIRST_WAIT = 0.5  # seconds, doubled each time; a server that asks for less gets this

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently. Times are seconds; `clock` is Unix time; `jitter` gives a number in [0, 1)."""

    tries: int = 3
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random

    def wait(self, error: Exception, attempt: int) -> float | None:
        """Seconds to wait after `attempt` (counted from 1) failed with `error`; None: give up."""
        retryable, retry_after = _advice(error)
        if attempt >= self.tries or not retryable:
            return None
        asked = retry_after_seconds(retry_after, self.clock())
        if asked is not None:
            return max(asked, FIRST_WAIT) if asked <= LONGEST_WAIT else None
        return float(FIRST_WAIT * 2 ** (attempt - 1) * (0.75 + 0.5 * self.jitter()))


def _advice(error: Exception) -> tuple[bool, str | None]:
    """(whether the same request may succeed later, the Retry-After header), of a BackendError or an error of httpx."""
    if isinstance(error, BackendError):
        return error.retryable, error.retry_after
    httpx = sys.modules.get("httpx")  # not imported here: an error of it cannot come from elsewhere
    if httpx is None:
        return False, None
    if isinstance(error, httpx.HTTPStatusError):
        return is_retryable(error.response.status_code), error.response.headers.get("retry-after")
    transient = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
    return isinstance(error, transient) and not isinstance(root_cause(error), ssl.SSLCertVerificationError), None


def async_retry(
    tries: int = 3, *, policy: RetryPolicy | None = None
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Call again, `tries` times in all, while the error may pass: a retryable BackendError, an httpx.HTTPStatusError of 408,
    409, 425, 429 or 5xx, or a broken connection or time-out of httpx. `policy` takes the place of `tries`.

    A server that asks (Retry-After) for more than LONGEST_WAIT is not asked again: its error is raised.
    """
    rule = policy or RetryPolicy(tries)

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(function)
        async def again(*args: P.args, **kwargs: P.kwargs) -> T:
            attempt = 1
            while True:
                try:
                    return await function(*args, **kwargs)
                except Exception as error:
                    seconds = rule.wait(error, attempt)
                    if seconds is None:
                        raise
                attempt += 1
                await rule.sleep(seconds)

        return again

    return decorate


def async_generator_retry(
    tries: int = 3,
    *,
    policy: RetryPolicy | None = None,
    announce: Callable[[Exception, float, int, int], T] | None = None,
) -> Callable[[Callable[P, AsyncGenerator[T, None]]], Callable[P, AsyncGenerator[T, None]]]:
    """The same for an async generator, as long as it has yielded nothing: what was shown cannot be withdrawn.

    `announce(error, seconds, attempt, tries)` makes an item that is yielded before each wait; `attempt`: the one to come.
    """
    rule = policy or RetryPolicy(tries)

    def decorate(function: Callable[P, AsyncGenerator[T, None]]) -> Callable[P, AsyncGenerator[T, None]]:
        @wraps(function)
        async def again(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            attempt, started = 1, False
            while True:
                try:
                    async with aclosing(function(*args, **kwargs)) as items:
                        async for item in items:
                            started = True
                            yield item
                except Exception as error:
                    failed, seconds = error, None if started else rule.wait(error, attempt)
                    if seconds is None:
                        raise
                else:
                    return
                attempt += 1
                if announce is not None:
                    yield announce(failed, seconds, attempt, rule.tries)
                await rule.sleep(seconds)

        return again

    return decorate
