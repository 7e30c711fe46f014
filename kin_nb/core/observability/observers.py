"""Observers: pass each event to all observers, and remove an observer that fails, with a warning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from kin_nb.core.events import BaseEvent, TurnEndEvent, TurnStartEvent
from kin_nb.core.observability.observer import Observed, Observer

if TYPE_CHECKING:
    from kin_nb.core.records import CompactRecord, TurnRecord


def observers_for(session: Observed, warn: Callable[[str], None]) -> list[Observer]:
    """Create the observers that `[observability]` names; `warn` is called for one that cannot be used. None by default."""
    found: list[Observer] = []
    for name, make in (("log", _log), ("otel", _otel), ("prometheus", _prometheus)):
        if getattr(session.config.observability, name):
            try:
                found.append(make(session))
            except Exception as error:  # noqa: BLE001  (libraries and file systems, each with its own errors)
                warn(f"observability.{name} is not used: {_why(error)}.")
    return found


class Observers:
    """The observers of one session. They are created at its first event.

    `warnings`: one line for each observer that failed, with the reason. It gets no more events.
    """

    def __init__(self, session: Observed, given: Iterable[Observer] = ()) -> None:
        """`given`: a program's own observers, in addition to those in the settings."""
        self._session, self._given = session, tuple(given)
        self._observers: list[Observer] | None = None
        self._in_turn = False
        self.warnings: list[str] = []

    def on_event(self, event: BaseEvent) -> None:
        """Pass on an event. Never raises."""
        if isinstance(event, TurnStartEvent | TurnEndEvent):
            self._in_turn = isinstance(event, TurnStartEvent)
        for observer in self._listening():
            self._guarded(observer, partial(observer.on_event, event))

    def turn_over(self, record: TurnRecord) -> None:
        """Pass on a TurnEndEvent if the turn has not yielded one, because it was cancelled or closed early."""
        if self._in_turn:
            self.on_event(TurnEndEvent(record=record))

    def compacted(self, record: CompactRecord) -> None:
        """Pass on a compaction. Never raises."""
        for observer in self._listening():
            self._guarded(observer, partial(observer.compacted, record))

    async def aclose(self) -> None:
        """Close them in a thread, because they may wait for a server; directly if the program is ending."""
        try:
            await asyncio.to_thread(self.close)
        except RuntimeError:
            self.close()

    def close(self) -> None:
        """Close them. Never raises. The next event creates them again, with the settings at that time."""
        observers, self._observers = self._observers or [], None
        for observer in observers:
            self._guarded(observer, observer.close)

    def _listening(self) -> list[Observer]:
        if self._observers is None:
            self._observers = [*self._given, *observers_for(self._session, self.warnings.append)]
        return list(self._observers)

    def _guarded(self, observer: Observer, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  (as above)
            name = type(observer).__name__
            self.warnings.append(f"observability: {name} failed, and gets no more events: {_why(error)}.")
            if self._observers and observer in self._observers:
                self._observers.remove(observer)


def _log(session: Observed) -> Observer:
    from kin_nb.core.observability.file_observers import EventLog  # noqa: PLC0415  (only when asked for)

    return EventLog(session)


def _otel(session: Observed) -> Observer:
    try:
        from kin_nb.core.observability.tracing import Traces  # noqa: PLC0415  (only when asked for, and slow to import)

        return Traces(session)
    except ImportError as error:
        raise ImportError("pip install kin-nb[otel]") from error


def _prometheus(session: Observed) -> Observer:
    from kin_nb.core.observability.file_observers import Counters  # noqa: PLC0415  (only when asked for)

    return Counters(session)


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return (str(error) or type(error).__name__).rstrip(".")
