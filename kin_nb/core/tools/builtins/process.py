"""Running a program in its own process group, and ending all of that group."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kin_nb.core.tools.base import ToolError

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_DRAIN = 0.2
"""Seconds that a program's children get for their last words after it has ended."""
_CHUNK = 65_536
_TIMED_OUT = 124

Sink = Callable[[bytes], bool]


@dataclass(frozen=True)
class Ended:
    """How a program ended. `exit_code` is 128 + n after signal n, and 124 when the time was up, as timeout(1) has it.

    `detached`: something that it started still holds its output; what that writes from now on is lost.
    """

    exit_code: int
    timed_out: bool = False
    detached: bool = False


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
    cancellation end the whole process group: SIGTERM, then SIGKILL after GRACE. A child that is left behind by a
    program that ended by itself lives on, and is not waited for. Raises ToolError when `argv` cannot be started.
    """
    read_end, write_end = os.pipe()
    try:
        try:
            process = await _started(
                asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=asyncio.subprocess.STDOUT if stderr is None else stderr,
                    cwd=cwd,
                    env=dict(environment),
                    start_new_session=True,
                )
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"The command could not be started: {error}") from error
        finally:
            os.close(write_end)
        return await _watch(process, _Output(read_end, sink), seconds)
    finally:
        os.close(read_end)


async def _started(start: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Cancelled meanwhile, asyncio would end the program alone, and leave behind what that has started by then."""
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({starting})
        if starting.exception() is None:
            process = starting.result()
            await _end_group(process.pid, asyncio.ensure_future(process.wait()))
        raise


async def _watch(process: asyncio.subprocess.Process, output: _Output, seconds: float) -> Ended:
    exited = asyncio.ensure_future(process.wait())
    try:
        over: set[asyncio.Future[Any]] = {exited, output.enough}
        await asyncio.wait(over, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        timed_out = not exited.done() and not output.enough.done()
    finally:
        if not exited.done():
            await _end_group(process.pid, exited)
        await output.drain()
    code = exited.result()
    return Ended(
        exit_code=_TIMED_OUT if timed_out else 128 - code if code < 0 else code,
        timed_out=timed_out,
        detached=not output.ended.done() and not output.enough.done(),
    )


class _Output:
    """The reading end of the pipe: hands what arrives to the sink until end of file, or until it has enough."""

    def __init__(self, descriptor: int, sink: Sink) -> None:
        self._descriptor, self._sink = descriptor, sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.enough: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._loop.remove_reader(self._descriptor)
            self.ended.set_result(None)
        elif self._sink(chunk):
            self._loop.remove_reader(self._descriptor)
            self.enough.set_result(None)

    async def drain(self) -> None:
        """Read what is left, without waiting for children that keep the pipe open."""
        try:
            await asyncio.wait({self.ended, self.enough}, timeout=_DRAIN, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop.remove_reader(self._descriptor)


async def _end_group(group: int, exited: asyncio.Future[int]) -> None:
    _signal(group, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while _signal(group, 0):  # noqa: ASYNC110  (no event tells when a group is empty)
                    await asyncio.sleep(0.01)
    finally:
        _signal(group, signal.SIGKILL)
    await exited


def _signal(group: int, number: int) -> bool:
    """Whether there is still someone in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a group that only holds zombies
        return False
    return True
