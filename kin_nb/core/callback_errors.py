"""Errors of a program's own functions (callbacks, observers, middleware, tools), which are reported and do not end a turn."""

from __future__ import annotations

import inspect
from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def failure(callback: object, error: BaseException) -> str:
    """Name the function that failed, and its error, for a warning or a refusal."""
    return f"{getattr(callback, '__qualname__', type(callback).__qualname__)} failed: {describe_error(error)}"


def describe_error(error: BaseException) -> str:
    """Name the class and the text of an error, also of one whose own `__str__` fails."""
    text = error_text(error)
    return f"{type(error).__name__}{f': {text}' if text else ''}"


def must_propagate(error: BaseException) -> bool:
    """Whether an error that a program's function raised ends our own work too.

    It does when it is an interrupt, the end of this coroutine, or the cancellation of this task. A CancelledError when this
    task was not cancelled is the function's own error: it awaited something cancelled, such as the future of a closed dialog.
    """
    if isinstance(error, CancelledError):
        task = current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


async def unless_cancelled(answer: Awaitable[T]) -> T:
    """Await a program's function. Raises CancelledError if this task was cancelled meanwhile, also if there is a result.

    A callback may catch the cancellation, to close a dialog for example, and then return or raise something else.
    Interrupts are raised unchanged.
    """
    task = current_task()
    assert task is not None  # noqa: S101  (a coroutine runs in a task)
    before = task.cancelling()  # an earlier cancellation that the task has survived does not count
    try:
        given = await answer
    except (CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if task.cancelling() > before:
            raise CancelledError from error
        raise
    if task.cancelling() > before:
        raise CancelledError
    return given


def _refuse_awaitable(result: object) -> None:
    """Raise TypeError for an awaitable. Observers are not awaited, so an `async def` would never run."""
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise TypeError("it returned an awaitable, which is not awaited; it must be a plain function")


def error_text(error: BaseException) -> str:
    """Return `str(error)`, and "" where that raises."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a program's own code)
        return ""


def guarded(observer: Callable[[T], object], warn: Callable[[str], object], what: str) -> Callable[[T], None]:
    """Wrap `observer`, so that its first error becomes a warning. It is still called later: it may fail for one value only.

    A CancelledError is the observer's own error, because it is not a coroutine. Interrupts are raised unchanged.
    """
    failed = False

    def observe(value: T) -> None:
        nonlocal failed
        try:
            _refuse_awaitable(observer(value))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  (a program's own code)
            if not failed:
                warn(f"{what} {failure(observer, error)}. The turn continues; further errors of it are not reported.")
            failed = True

    return observe
