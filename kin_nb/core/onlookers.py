"""What a front end knows of the world around a turn, and the agent does not: said in the turn's own record.

What is said there, the cell, the saved notebook and playback show alike. Also what becomes of an error in a function that a
program gave us (`failure`, `guarded`): it is reported and named, and never breaks a turn.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kin_nb.core.session.records import FileChange, TurnRecord

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

T = TypeVar("T")


class Onlooker(Protocol):
    """One of `Agent.onlookers`. Both are called on the agent's loop, which waits: look at little, and await nothing."""

    def begins(self) -> None:
        """A turn begins."""

    def ends(self, files: Sequence[FileChange]) -> Iterable[str]:
        """It ends, however it does. `files`: what its calls changed, oldest first, as recorded. Returns a line for each remark."""


def begins(agent: Agent) -> None:
    """An onlooker that fails here is heard of when it says what it cannot know then."""
    for onlooker in agent.onlookers:
        try:
            onlooker.begins()
        except Exception as error:  # noqa: BLE001  (no turn fails for a remark)
            agent.journal.warnings.append(_failed(error))


def remarks(agent: Agent, files: Sequence[FileChange]) -> list[str]:
    said: list[str] = []
    for onlooker in agent.onlookers:
        try:
            said += onlooker.ends(files)
        except Exception as error:  # noqa: BLE001  (the record is being closed)
            said.append(_failed(error))
    return [agent.redact(text) for text in said]


def files_of(turn: TurnRecord) -> tuple[FileChange, ...]:
    return tuple(change for call in turn.calls for change in call.files)


def _failed(error: Exception) -> str:
    return f"a remark on this turn could not be made: {type(error).__name__}."


def failure(callback: object, error: BaseException) -> str:
    """Which function of a program failed, and how: for a warning or a refusal."""
    name = getattr(callback, "__qualname__", type(callback).__qualname__)
    text = _text(error)
    return f"{name} failed: {type(error).__name__}{f': {text}' if text else ''}"


def _refuse_awaitable(result: object) -> None:
    """Raises TypeError: who calls an observer does not await it, so an `async def` would never run."""
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise TypeError("it returned an awaitable, which is not awaited; it must be a plain function")


def _text(error: BaseException) -> str:
    """Of an error whose own `__str__` fails: nothing."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a program's own code)
        return ""


def guarded(observer: Callable[[T], object], warn: Callable[[str], object], what: str) -> Callable[[T], None]:
    """`observer`, whose errors become one warning: the first. It is called on, for what it fails at may be one value only.

    It is a plain function, so a CancelledError is its own error and not a cancellation of the turn. An interrupt passes.
    """
    failed = False

    def observe(value: T) -> None:
        nonlocal failed
        try:
            _refuse_awaitable(observer(value))
        except (Exception, SystemExit, CancelledError) as error:  # noqa: BLE001  (a program's own code)
            if not failed:
                warn(f"{what} {failure(observer, error)}. The turn continues; further errors of it are not reported.")
            failed = True

    return observe
