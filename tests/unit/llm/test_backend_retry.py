"""What is tried again, and how long it waits: with a clock and a sleep of the test's own."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable

import httpx
import pytest

from kin_nb.core.llm.errors import BackendError, duration
from kin_nb.core.llm.retry import RetryPolicy, async_generator_retry, async_retry, retry_after_seconds
from tests.model_server import ModelServer

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


def test_retry_after_is_seconds_or_a_date(subtests) -> None:
    for number, (header, seconds) in enumerate(
        [
            ("3", 3.0),
            ("0", 0.0),
            ("1.5", 1.5),
            ("99999", 99999.0),
            ("Thu, 01 Jan 1970 00:17:00 GMT", 20.0),
            ("Thu, 01 Jan 1970 00:17:00 -0000", 20.0),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
            ("9" * 400, 1e9),
            ("nan", None),
            ("-5", None),
            ("soon", None),
            ("", None),
            (None, None),
        ]
    ):
        with subtests.test(number=number):
            assert retry_after_seconds(header, 1000.0) == seconds


def test_a_server_that_asks_for_more_than_a_minute_is_not_asked_again(subtests) -> None:
    for asked, wait in [("60", 60.0), ("61", None), ("Thu, 01 Jan 1970 00:20:00 GMT", None)]:
        with subtests.test(asked=asked, wait=wait):
            error = BackendError("busy", "wait", retryable=True, retry_after=asked)
            assert policy(Waits()).wait(error, 1) == wait


def test_a_server_that_asks_for_no_wait_gets_a_short_one(subtests) -> None:
    for asked in ["0", "0.1", "Thu, 01 Jan 1970 00:00:00 GMT"]:
        with subtests.test(asked=asked):
            error = BackendError("busy", "wait", retryable=True, retry_after=asked)
            assert policy(Waits()).wait(error, 1) == 0.5


def test_a_duration_is_rounded_up(subtests) -> None:
    for number, (seconds, words) in enumerate(
        [(0.2, "0.2 s"), (119.5, "120 s"), (121, "3 min"), (7201, "3 h"), (86_400, "24 h"), (500_000, "6 days")]
    ):
        with subtests.test(number=number):
            assert duration(seconds) == words


def asking(url: str, waits: Waits) -> Callable[[], Awaitable[str]]:
    """What a user writes around httpx."""

    @async_retry(policy=policy(waits))
    async def ask() -> str:
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.post(
                f"{url}/chat/completions", json={"messages": [{"role": "user", "content": "x"}]}
            )
            response.raise_for_status()
            return response.text

    return ask


async def test_a_users_own_call_of_httpx_is_tried_again(model_server: ModelServer) -> None:
    waits = Waits()
    model_server.enqueue(status=503)
    model_server.enqueue(status=429, headers={"Retry-After": "7"})
    model_server.enqueue("Here.")
    assert "Here." in await asking(model_server.url, waits)()
    assert waits == [0.5, 7.0]


async def test_what_a_users_call_of_httpx_cannot_get_is_not_tried_again(subtests, model_server: ModelServer) -> None:
    for status, headers in [(400, {}), (401, {}), (404, {}), (429, {"Retry-After": "61"})]:
        with subtests.test(status=status, headers=headers):
            model_server.clear()
            model_server.enqueue(status=status, headers=headers)
            with pytest.raises(httpx.HTTPStatusError):
                await asking(model_server.url, Waits())()
            assert len(model_server.requests) == 1


async def test_a_broken_connection_of_httpx_is_tried_again(model_server: ModelServer) -> None:
    waits = Waits()
    model_server.enqueue(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    model_server.enqueue("Here.")
    assert "Here." in await asking(model_server.url, waits)()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(httpx.ConnectError):
            await asking(f"http://127.0.0.1:{closed.getsockname()[1]}", waits)()
    assert waits == [0.5, 0.5, 1.0]


async def test_a_users_own_stream_of_httpx_is_tried_again(model_server: ModelServer) -> None:
    waits = Waits()

    @async_generator_retry(policy=policy(waits))
    async def lines() -> AsyncGenerator[str, None]:
        body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("POST", f"{model_server.url}/chat/completions", json=body) as response,
        ):
            response.raise_for_status()
            async for line in response.aiter_lines():
                yield line

    model_server.enqueue(status=500)
    model_server.enqueue("Here.")
    found = [line async for line in lines()]
    assert found[-2:] == ["data: [DONE]", ""]
    assert waits == [0.5]


async def test_a_wait_may_be_announced_before_it() -> None:
    waits, attempts = Waits(), []

    @async_generator_retry(policy=policy(waits), announce=lambda *what: (*what, len(waits)))
    async def items() -> AsyncGenerator[object, None]:
        attempts.append(1)
        if len(attempts) < 3:
            raise LATER
        yield "item"

    assert [item async for item in items()] == [(LATER, 0.5, 2, 3, 0), (LATER, 1.0, 3, 3, 1), "item"]
