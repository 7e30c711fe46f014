"""Make an async generator of events from a coroutine that emits them.

The coroutine runs in the consumer's task: it continues when the consumer requests the next event, so a slow consumer
slows it down, and cancelling the consumer cancels it. There is neither a queue nor another task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeAlias

from kin_nb.core.events import BaseEvent

Emit: TypeAlias = Callable[[BaseEvent], Awaitable[None]]


class ConsumerLeft(BaseException):
    """Raised in the coroutine when the consumer stops before the last event."""


async def event_stream(work: Callable[[Emit], Coroutine[Any, Any, None]]) -> AsyncGenerator[BaseEvent, None]:
    """Yield the events that `work` emits. Raises what `work` raises.

    When this generator is closed early, `await emit(...)` raises ConsumerLeft inside `work`, and the generator waits until
    `work` has cleaned up. Events that are emitted during the cleanup are dropped.
    """
    coroutine = work(_Emitted)
    raised: BaseException | None = None
    try:
        while (emitted := await _UntilEmitted(coroutine, raised)) is not None:
            raised = None
            try:
                yield emitted.event
            except GeneratorExit:
                await _clean_up(coroutine)
                raise
            except BaseException as error:  # noqa: BLE001  (thrown into `work`, where it belongs)
                raised = error
    finally:
        coroutine.close()


async def _clean_up(coroutine: Coroutine[Any, Any, None]) -> None:
    raised: BaseException | None = ConsumerLeft()
    with suppress(ConsumerLeft):
        while await _UntilEmitted(coroutine, raised) is not None:
            raised = None


class _Emitted:
    """Passes an event from `await emit(event)` to `_UntilEmitted`."""

    def __init__(self, event: BaseEvent) -> None:
        self.event = event

    def __await__(self) -> Generator[_Emitted, None, None]:
        yield self


class _UntilEmitted:
    """Run the coroutine until it emits an event; None when it has ended. Futures are passed to the event loop.

    `raised`: an exception to throw into the coroutine first.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None], raised: BaseException | None) -> None:
        self._coroutine, self._raised = coroutine, raised

    def __await__(self) -> Generator[Any, Any, _Emitted | None]:
        raised, sent = self._raised, None
        while True:
            try:
                found = self._coroutine.send(sent) if raised is None else self._coroutine.throw(raised)
            except StopIteration:
                return None
            if isinstance(found, _Emitted):
                return found
            raised = None
            try:
                sent = yield found
            except BaseException as error:  # noqa: BLE001  (a cancellation, for one)
                raised = error
