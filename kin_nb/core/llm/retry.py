"""Trying again where that helps (seed 000's names): never after the first item, never what was refused for good."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import wraps
from typing import ParamSpec, TypeVar

from kin_nb.core.llm.errors import BackendError

LONGEST_WAIT = 60.0  # seconds, whatever Retry-After asks for
FIRST_WAIT = 0.5  # seconds, doubled each time

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
        if attempt >= self.tries or not (isinstance(error, BackendError) and error.retryable):
            return None
        asked = retry_after_seconds(error.retry_after, self.clock())
        if asked is not None:
            return min(asked, LONGEST_WAIT)
        return float(FIRST_WAIT * 2 ** (attempt - 1) * (0.75 + 0.5 * self.jitter()))


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Retry-After as seconds from `now`, from a number or an HTTP date (RFC 9110, 10.2.3); None when it is neither."""
    value = (value or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)


def async_retry(
    tries: int = 3, *, policy: RetryPolicy | None = None
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Call again while the BackendError raised is worth it. `policy` takes the place of `tries`."""
    rule = policy or RetryPolicy(tries)

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(function)
        async def again(*args: P.args, **kwargs: P.kwargs) -> T:
            attempt = 1
            while True:
                try:
                    return await function(*args, **kwargs)
                except BackendError as error:
                    seconds = rule.wait(error, attempt)
                    if seconds is None:
                        raise
                attempt += 1
                await rule.sleep(seconds)

        return again

    return decorate


def async_generator_retry(
    tries: int = 3, *, policy: RetryPolicy | None = None
) -> Callable[[Callable[P, AsyncGenerator[T, None]]], Callable[P, AsyncGenerator[T, None]]]:
    """The same for an async generator, as long as it has yielded nothing: what was shown is not taken back."""
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
                except BackendError as error:
                    seconds = None if started else rule.wait(error, attempt)
                    if seconds is None:
                        raise
                else:
                    return
                attempt += 1
                await rule.sleep(seconds)

        return again

    return decorate
