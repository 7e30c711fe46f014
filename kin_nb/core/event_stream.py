"""Events from plain coroutines: a coroutine emits them, and whoever iterates takes one at a time.

The coroutine runs in the consumer's own task, in between: it continues when the next event is asked for, so a slow consumer
slows it down, and cancelling the consumer cancels it. Nothing is queued and no task is made.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeAlias

from kin_nb.core.events import BaseEvent

Emit: TypeAlias = Callable[[BaseEvent], Awaitable[None]]


class ConsumerLeft(BaseException):
    """The consumer stopped before the last event: the work ends here."""


async def event_stream(work: Callable[[Emit], Coroutine[Any, Any, None]]) -> AsyncGenerator[BaseEvent, None]:
    """Yield the events that `work` emits. Raises whatever it raises.

    Closed early, it raises ConsumerLeft inside `work` at its `await emit(...)`, and waits until `work` has cleaned up; what
    that emits meanwhile is dropped.
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
    """What `await emit(event)` hands to the loop that runs the coroutine."""

    def __init__(self, event: BaseEvent) -> None:
        self.event = event

    def __await__(self) -> Generator[_Emitted, None, None]:
        yield self


class _UntilEmitted:
    """Run the coroutine until it emits, and return that; None when it has ended. Futures go through to the event loop.

    `raised`: what is thrown into it first.
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
