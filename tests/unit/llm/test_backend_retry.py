"""What is tried again, and how long it waits: with a clock and a sleep of the test's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from kin_nb.core.llm.errors import BackendError
from kin_nb.core.llm.retry import RetryPolicy, async_generator_retry, async_retry, retry_after_seconds

LATER = BackendError("busy", "wait", retryable=True)
NEVER = BackendError("no", "give up")


class Waits(list[float]):
    async def sleep(self, seconds: float) -> None:
        self.append(seconds)


def policy(waits: Waits, tries: int = 3, jitter: float = 0.5) -> RetryPolicy:
    return RetryPolicy(tries, sleep=waits.sleep, clock=lambda: 1000.0, jitter=lambda: jitter)


async def test_a_call_is_tried_three_times_with_growing_waits() -> None:
    waits, attempts = Waits(), []

    @async_retry(policy=policy(waits))
    async def call() -> str:
        attempts.append(1)
        raise LATER

    with pytest.raises(BackendError, match="busy"):
        await call()
    assert (len(attempts), waits) == (3, [0.5, 1.0])


@pytest.mark.parametrize("error", [NEVER, ValueError("a bug")])
async def test_what_will_not_change_is_not_tried_again(error: Exception) -> None:
    waits = Waits()

    @async_retry(policy=policy(waits))
    async def call() -> None:
        raise error

    with pytest.raises(type(error)):
        await call()
    assert waits == []


async def test_a_generator_is_tried_again_only_before_its_first_item() -> None:
    waits, attempts = Waits(), []

    @async_generator_retry(policy=policy(waits))
    async def items() -> AsyncGenerator[int, None]:
        attempts.append(1)
        if len(attempts) < 2:
            raise LATER
        yield 1
        raise LATER

    stream = items()
    assert await anext(stream) == 1
    with pytest.raises(BackendError, match="busy"):
        await anext(stream)
    assert (len(attempts), len(waits)) == (2, 1)


async def test_a_generator_closed_early_closes_the_one_inside() -> None:
    closed = []

    @async_generator_retry()
    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    stream = items()
    assert await anext(stream) == 1
    await stream.aclose()
    assert closed == [True]


def test_jitter_spreads_a_wait_by_a_quarter() -> None:
    waits = [policy(Waits(), jitter=j).wait(LATER, 1) for j in (0.0, 1.0)]
    assert waits == [0.375, 0.625]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("99999", 99999.0),
        ("Thu, 01 Jan 1970 00:17:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:17:00 -0000", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("nan", None),
        ("-5", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, 1000.0) == seconds


def test_no_wait_is_longer_than_a_minute() -> None:
    error = BackendError("busy", "wait", retryable=True, retry_after="99999")
    assert policy(Waits()).wait(error, 1) == 60.0
