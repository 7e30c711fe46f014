"""Many notebooks, each in a process of its own: what becomes of one of them is a row, and never the end of the others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from kin_nb.core.interrupts import run_interruptible
from kin_nb.render import one_line
from kin_nb.replay.runner.rows import Row, as_json, row_from
from kin_nb.replay.runner.worker import Request
from kin_nb.replay.saving.privacy import known_secrets

WORKER = (sys.executable, "-P", "-m", "kin_nb.replay.runner.worker")
"""-P: a module that lies in the current directory is none of ours."""
GRACE = 10.0
"""Seconds in which a worker that is told to end has to end its kernel and what runs in there."""
_TAIL = 2000

OnRow = Callable[[Row], None]


def replay_many(requests: Sequence[Request], jobs: int, timeout: float | None, on_row: OnRow) -> list[Row]:
    """The rows, in the requests' order; `on_row` is told of each as it comes. `timeout`: seconds for each notebook.

    No process is left, also when it is interrupted: raises as core.interrupts.run_interruptible.
    """

    async def all_of_them() -> list[Row]:
        free = asyncio.Semaphore(jobs)

        async def one(request: Request) -> Row:
            async with free:
                row = await _in_process(request, timeout)
            on_row(row)
            return row

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    return run_interruptible(all_of_them())


def replay_in_process(request: Request, timeout: float | None) -> Row:
    """One of them, on any thread."""
    return run_interruptible(_in_process(request, timeout))


async def _in_process(request: Request, seconds: float | None) -> Row:
    with tempfile.TemporaryFile() as stderr:
        try:
            process = await asyncio.create_subprocess_exec(
                *WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # a group that can be ended as a whole
            )
        except OSError as error:
            return Row.failed(request.notebook, f"no process can be started for it: {error.strerror}")
        try:
            async with asyncio.timeout(seconds):
                stdout, _ = await process.communicate(as_json(request).encode())
        except TimeoutError:
            return Row.failed(request.notebook, f"it took longer than {seconds:g} s, and was ended")
        finally:
            await _end(process)
        return _row(request, process.returncode or 0, stdout, stderr)


def _row(request: Request, code: int, stdout: bytes, stderr: IO[bytes]) -> Row:
    if code == 0:
        with suppress(ValueError):
            row = row_from(stdout)
            if row.notebook == request.notebook:
                return row
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _TAIL))
    last = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}" if code else "gave no report"
    return Row.failed(
        request.notebook, f"its process {how}{': ' if last else ''}{one_line(known_secrets()(last), 300)}"
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """First it is asked to: it has a kernel to end, which is in a group of its own."""
    if process.returncode is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await process.wait()
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
            await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
