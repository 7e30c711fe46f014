"""The thread that the agent's asyncio loop runs on, and waiting for it on the calling thread: Interrupt works there."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar


class AgentThread:
    """A background event loop, started by the first use of `loop`, and again after `close`."""

    def __init__(self, name: str = "kin-agent") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, for `call_soon_threadsafe` and `run_coroutine_threadsafe`."""
        with self._lock:
            if self._loop is None or not self.running:
                self._loop = self._start()
            return self._loop

    def close(self, timeout: float = 5.0) -> bool:
        """Cancel all tasks, close the loop and join, within `timeout` seconds. Return False if a task did not end."""
        with self._lock:
            thread, loop, stop = self._thread, self._loop, self._stop
            if thread is None or loop is None or stop is None or not thread.is_alive():
                return True
            loop.call_soon_threadsafe(stop.set)
            thread.join(timeout)
            return not thread.is_alive()

    def _start(self) -> asyncio.AbstractEventLoop:
        started = threading.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def serve() -> None:
            loops.append(asyncio.get_running_loop())
            self._stop = asyncio.Event()
            started.set()
            await self._stop.wait()

        # Daemon: a task that ignores its cancellation must not keep the kernel from exiting.
        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), name=self._name, daemon=True)
        self._thread.start()
        started.wait()
        return loops[0]


T = TypeVar("T")

GRACE_SECONDS = 3.0
"""Seconds that an interrupted turn may take to clean up."""
TERMINATION_SECONDS = GRACE_SECONDS + 1.0
"""The same after SIGTERM, user code on the main thread included."""

_TICK_SECONDS = 0.05
_LOOK_SECONDS = 0.2
"""A signal may come to another thread of the process, on Linux seldom: Python's handler runs when the main thread wakes."""


class TurnInterrupted(KeyboardInterrupt):
    """The user stopped the turn: one line in the cell, and an error for the front end, so that queued cells do not run."""

    def _render_traceback_(self) -> list[str]:
        return [f"Interrupted. {self}"]


class SubmitMain(Protocol):
    """`await submit_main(fn)`: run `fn()` on the thread that waits for the agent (user namespace, `input()`).

    Raises what `fn` raises. A KeyboardInterrupt in `fn` interrupts the turn.
    """

    def __call__(self, fn: Callable[[], T]) -> Awaitable[T]: ...


def run_on_agent_thread(
    make_coro: Callable[[SubmitMain], Coroutine[Any, Any, T]],
    thread: AgentThread,
    *,
    on_tick: Callable[[], None] | None = None,
) -> T:
    """Run `make_coro(submit_main)` on the agent's loop, in the caller's context; return or raise what it does.

    `on_tick` is called about every 0.05 s (`TapRun.on_tick`, ipykernel 6). On the main thread SIGINT is ours meanwhile:
    the first cancels the coroutine and waits up to 3 s for it to settle, a second leaves it behind. Either way Interrupted
    is raised, and the signal handler is as it was. SIGTERM, where nothing handles it, cancels it too and then ends the process.
    """
    return _MainThreadLoop[T](thread.loop, on_tick).run(make_coro)


class _MainThreadLoop(Generic[T]):
    def __init__(self, loop: asyncio.AbstractEventLoop, on_tick: Callable[[], None] | None) -> None:
        self._loop = loop
        self._on_tick = on_tick
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._task: asyncio.Task[T] | None = None
        self._settled = False
        self._closed = False
        self._interrupts = 0
        self._deadline: float | None = None
        self._in_job = False
        self._job_interrupted = False
        self._terminated = False

    def run(self, make_coro: Callable[[SubmitMain], Coroutine[Any, Any, T]]) -> T:
        with self._own_signals():
            # call_soon_threadsafe copies this thread's context: the cell's parent travels with the task.
            self._loop.call_soon_threadsafe(self._start, make_coro)
            try:
                while not self._settled and self._interrupts < 2 and self._time_left() != 0:  # noqa: PLR2004  (the second)
                    self._step()
            finally:
                self._close()
        return self._outcome()

    def _outcome(self) -> T:
        if not self._settled or self._task is None:
            raise TurnInterrupted(
                "The agent did not stop in time. It may still be running; restart the kernel to be sure."
            )
        if self._interrupts or self._task.cancelled():
            raise TurnInterrupted("The agent was stopped.")
        return self._task.result()

    # On the waiting thread.

    def _step(self) -> None:
        try:
            action = self._inbox.get(timeout=self._patience())
        except queue.Empty:
            pass
        else:
            try:
                action()
            except KeyboardInterrupt:  # it came while a job was being put away
                self._interrupt()
        if self._on_tick:
            self._on_tick()

    def _patience(self) -> float:
        """Return the longest wait for the next action, in seconds."""
        tick, left = _TICK_SECONDS if self._on_tick else _LOOK_SECONDS, self._time_left()
        return tick if left is None else min(tick, left)

    def _time_left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _interrupt(self) -> None:
        self._interrupts += 1
        self._deadline = self._deadline or time.monotonic() + GRACE_SECONDS
        self._call_agent(self._cancel)

    def _run_job(self, fn: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        if future.done():  # the caller was cancelled
            return
        result: Any = None
        error: BaseException | None = None
        try:
            self._in_job = True
            result = fn()
        except BaseException as raised:  # noqa: BLE001  (passed to the caller)
            error = raised
        finally:
            self._in_job = False
        if sys.stdout is not None:
            sys.stdout.flush()  # what the job printed comes before what the agent shows next
        self._call_agent(partial(_resolve, future, result, error))
        if self._job_interrupted or isinstance(error, KeyboardInterrupt):
            self._job_interrupted = False
            self._interrupt()

    def _close(self) -> None:
        """Stop running jobs: cancel the futures of waiting jobs."""
        self._closed = True
        with suppress(queue.Empty):
            while True:
                action = self._inbox.get_nowait()
                if isinstance(action, partial):
                    self._call_agent(action.args[1].cancel)
                elif action == self._interrupt:  # it came as the turn ended: queued cells stop all the same
                    self._interrupts += 1

    def _call_agent(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(callback)

    @contextmanager
    def _own_signals(self) -> Iterator[None]:
        found = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or found is None:
            yield
            return
        ends = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGINT, self._on_sigint)
        if ends:
            signal.signal(signal.SIGTERM, self._on_sigterm)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, found)
            if ends:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._terminated:
                os.kill(os.getpid(), signal.SIGTERM)

    def _on_sigint(self, _signum: int, _frame: object) -> None:
        if self._in_job:
            self._job_interrupted = True  # the job may swallow the exception, as run_cell does
            raise KeyboardInterrupt
        self._inbox.put(self._interrupt)  # SimpleQueue.put is safe inside a handler that interrupts get

    def _on_sigterm(self, signum: int, frame: object) -> None:
        """Interrupt the turn, then end the process. A second signal, or code that does not stop, ends it at once."""
        self._terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        last = threading.Timer(TERMINATION_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
        last.daemon = True
        last.start()
        self._on_sigint(signum, frame)

    # On the agent's loop.

    def _start(self, make_coro: Callable[[SubmitMain], Coroutine[Any, Any, T]]) -> None:
        self._task = self._loop.create_task(self._turn(make_coro))
        self._task.add_done_callback(self._on_done)

    async def _turn(self, make_coro: Callable[[SubmitMain], Coroutine[Any, Any, T]]) -> T:
        try:
            return await make_coro(self._submit_main)
        except (KeyboardInterrupt, SystemExit) as error:  # asyncio would end the whole loop
            raise RuntimeError(f"the agent ended with {error!r}") from error

    def _on_done(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved: an abandoned turn has no caller
        self._settled = True
        self._inbox.put(_nothing)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _submit_main(self, fn: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._inbox.put(partial(self._run_job, fn, future))
        if self._closed:  # after the put: a job is either drained by _close or refused here
            future.cancel()
        return await future


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, KeyboardInterrupt):
        return  # the turn is cancelled next, and with it the waiting task
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        future.set_exception(error)
    else:  # a future cannot carry these through asyncio
        future.set_exception(RuntimeError(f"{error!r} on the main thread"))


def _nothing() -> None:
    """Do nothing: the call only wakes the waiting thread."""
