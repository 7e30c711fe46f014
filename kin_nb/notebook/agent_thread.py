"""The thread that the agent's asyncio loop runs on: the main thread stays free to be interrupted."""

from __future__ import annotations

import asyncio
import threading


class AgentThread:
    """One background loop. It starts with the first use of `loop`, and again after `close`; its owner keeps it."""

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
        """The running loop; use it with `call_soon_threadsafe` and `run_coroutine_threadsafe`."""
        with self._lock:
            if self._loop is None or not self.running:
                self._loop = self._start()
            return self._loop

    def close(self, timeout: float = 5.0) -> bool:
        """Cancel what runs, close the loop and join, for at most `timeout` seconds. False when a task would not end."""
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
