"""Running a program, and ending all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kin_nb.core.processes.supervised import LONGEST_END, Supervised, send_signal
from kin_nb.core.tool_types import ToolError

_DRAIN = 0.2
"""Seconds that processes which could not be ended get for their last words after the program has ended."""
_CHUNK = 65_536
_TIMED_OUT = 124

Sink = Callable[[bytes], bool]


@dataclass(frozen=True)
class Ended:
    """How a program ended. `exit_code` is 128 + n after signal n, and 124 when the time was up, as timeout(1) has it.

    `swept`: command lines of what it left running, which was ended. `remains`: of what could not be ended.
    """

    exit_code: int
    timed_out: bool = False
    swept: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    sink: Sink,
    stderr: IO[bytes] | None = None,
) -> Ended:
    """Run `argv` with stdin closed until it ends, `seconds` are over, or `sink` returns True (enough).

    `sink` gets stdout as it arrives, with stderr merged in order unless it has a file of its own. Time up, enough and
    cancellation end the program and all that it started: SIGTERM, then SIGKILL after GRACE. So does the end of this process,
    and what is still running when the program has ended by itself is ended too. Raises ToolError when `argv` cannot be started.
    """
    read_end, write_end = os.pipe()
    command = Supervised(argv, environment)
    try:
        try:
            start = asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=asyncio.subprocess.STDOUT if stderr is None else stderr,
                cwd=cwd,
                env=dict(environment),
                start_new_session=True,
                pass_fds=command.fds,
            )
            process = await _started(start, command)
        except (OSError, ValueError) as error:
            raise ToolError(f"The command could not be started: {error}") from error
        finally:
            command.started()
            os.close(write_end)
        return await _watch(process, command, _Output(read_end, sink), seconds)
    finally:
        command.close()
        os.close(read_end)


async def _started(
    start: Coroutine[Any, Any, asyncio.subprocess.Process], command: Supervised
) -> asyncio.subprocess.Process:
    """Cancelled meanwhile, asyncio would end the supervisor alone, and leave behind what that has started by then."""
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({starting})
        if starting.exception() is None:
            process = starting.result()
            await _end(process, command, asyncio.ensure_future(process.wait()))
        raise


async def _watch(process: asyncio.subprocess.Process, command: Supervised, output: _Output, seconds: float) -> Ended:
    exited = asyncio.ensure_future(process.wait())
    try:
        over: set[asyncio.Future[Any]] = {exited, output.enough}
        await asyncio.wait(over, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        timed_out = not exited.done() and not output.enough.done()
    finally:
        try:
            if not exited.done():
                await _end(process, command, exited)
        finally:  # cancelled once more too: the loop must not go on watching a descriptor that is closed
            await output.drain()
    code, report = exited.result(), command.report()
    if report.error is not None:
        raise ToolError(f"The command could not be started: {report.error}")
    timed_out = timed_out and not report.ended
    return Ended(
        exit_code=_TIMED_OUT if timed_out else 128 - code if code < 0 else code,
        timed_out=timed_out,
        swept=report.swept,
        remains=report.remains,
    )


async def _end(process: asyncio.subprocess.Process, command: Supervised, exited: asyncio.Future[int]) -> None:
    command.terminate(process)
    try:
        await asyncio.wait({exited}, timeout=LONGEST_END)
    finally:
        if not exited.done():  # cancelled once more, or the supervisor itself does not run
            command.kill(process)
            await asyncio.wait({exited}, timeout=LONGEST_END)
        if not exited.done():
            send_signal(process, signal.SIGKILL)
    await exited


class _Output:
    """The reading end of the pipe: hands what arrives to the sink until end of file, or until it has enough."""

    def __init__(self, descriptor: int, sink: Sink) -> None:
        self._descriptor, self._sink = descriptor, sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.enough: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> bool:
        """Whether there was something to read."""
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._descriptor)
            self.ended.set_result(None)
        elif self._sink(chunk):
            self._loop.remove_reader(self._descriptor)
            self.enough.set_result(None)
        return True

    async def drain(self) -> None:
        """Read what is left, without waiting for processes that keep the pipe open."""
        try:
            while not (self.ended.done() or self.enough.done()) and self._read():
                pass
            await asyncio.wait({self.ended, self.enough}, timeout=_DRAIN, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop.remove_reader(self._descriptor)
