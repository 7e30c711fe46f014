"""Run many notebooks, each in a process of its own, on this machine or on an existing Dask cluster.

The outcome of each is a row; a failure of one does not stop the others.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, Any

from kin_nb.core.interrupts import run_interruptible
from kin_nb.core.text import last_line
from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.results import ReplayResult, as_json, from_json, result_from_json
from kin_nb.replay.runner.run_notebook import Request
from kin_nb.replay.saving.privacy import known_secrets

WORKER = (sys.executable, "-P", "-m", "kin_nb.replay.runner.run_notebook")
"""-P: a module in the current directory must not replace ours."""
GRACE_SECONDS = 10.0
"""Seconds in which a worker that was asked to end has to end its kernel."""
CONNECT_SECONDS = 30
"""Seconds that a cluster may be without workers, or without a scheduler that answers."""
LOOK_SECONDS = 5
_TAIL = 2000

OnResult = Callable[[ReplayResult], None]


def replay_many(requests: Sequence[Request], jobs: int, timeout: float | None, on_row: OnResult) -> list[ReplayResult]:
    """The rows, in the requests' order; `on_row` gets each as it comes. `timeout`: seconds for each notebook.

    No process is left, also when it is interrupted: raises as core.interrupts.run_interruptible.
    """

    async def all_of_them() -> list[ReplayResult]:
        free = asyncio.Semaphore(jobs)

        async def one(request: Request) -> ReplayResult:
            async with free:
                row = await _in_process(request, timeout)
            on_row(row)
            return row

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    return run_interruptible(all_of_them())


def replay_in_process(request: Request, timeout: float | None) -> ReplayResult:
    """One of them, on any thread."""
    return run_interruptible(_in_process(request, timeout))


async def _in_process(request: Request, seconds: float | None) -> ReplayResult:
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
            return ReplayResult.failed(request.notebook, f"its process cannot be started: {error.strerror}")
        try:
            async with asyncio.timeout(seconds):
                stdout, _ = await process.communicate(as_json(request).encode())
        except TimeoutError:
            return ReplayResult.failed(request.notebook, f"it took longer than {seconds:g} s and was stopped")
        finally:
            await _end(process)
        return _row(request, process.returncode or 0, stdout, stderr)


def _row(request: Request, code: int, stdout: bytes, stderr: IO[bytes]) -> ReplayResult:
    if code == 0:
        with suppress(ValueError):
            row = result_from_json(stdout)
            if row.notebook == request.notebook:
                return row
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _TAIL))
    last = last_line(stderr.read().decode(errors="replace"))
    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}" if code else "gave no report"
    return ReplayResult.failed(
        request.notebook, f"its process {how}{': ' if last else ''}{one_line(known_secrets()(last), 300)}"
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """First it is asked to: it has a kernel to end, which is in a group of its own."""
    if process.returncode is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
            await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def replay_on_dask(
    address: str, requests: Sequence[Request], timeout: float | None, on_row: OnResult
) -> list[ReplayResult]:
    """As many.replay_many. A task that fails or whose worker dies is a failed row.

    Paths have to mean the same to the workers. Raises ReplayError when `distributed` is not installed, or no scheduler answers
    at `address` (tcp://HOST:PORT).
    """
    try:
        distributed: Any = import_module("distributed")  # the extra `dask`, which has no types
    except ImportError:
        raise ReplayError(
            "--dask needs the package dask.distributed.\nInstall it: pip install 'kin_nb[dask]'"
        ) from None
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ReplayError(f"No Dask scheduler answers at {address}: {one_line(str(error), 200)}") from None
    with client:
        threads = _threads(client)
        if not threads:
            raise ReplayError(f"The Dask cluster at {address} has no workers.\nStart one: dask worker {address}")
        limit = None if timeout is None else CONNECT_SECONDS + timeout * len(requests)
        rows: dict[int, ReplayResult] = {}
        for n, future in _as_they_come(distributed, client, requests, timeout, threads, limit):
            rows[n] = _row_of_task(requests[n].notebook, future)
            on_row(rows[n])
    return [
        rows.get(n) or ReplayResult.failed(request.notebook, "no worker of the cluster answered in time")
        for n, request in enumerate(requests)
    ]


def _as_they_come(
    distributed: Any, client: Any, requests: Sequence[Request], timeout: float | None, threads: int, limit: float | None
) -> Iterator[tuple[int, Any]]:
    """(number of the request, finished future), until all are there, `limit` seconds are over, or the cluster is gone.

    No more tasks than the cluster has `threads`: one that waited on a worker that dies would be blamed for it too.
    """
    waiting = list(enumerate(requests))
    numbers: dict[Any, int] = {}
    done = distributed.as_completed(loop=client.loop)
    begun = seen = asked = time.monotonic()
    try:
        while waiting or numbers:
            while client.status == "running" and waiting and len(numbers) < threads:
                n, request = waiting.pop(0)
                future = client.submit(run_request, as_json(request), timeout, retries=0, pure=False)
                numbers[future] = n
                done.add(future)
            for future in done.next_batch(block=False):
                yield numbers.pop(future), future
            now = time.monotonic()
            if now - asked > LOOK_SECONDS:
                asked, seen = now, now if _threads(client) else seen
            if client.status == "closed" or now - seen > CONNECT_SECONDS or (limit and now - begun > limit):
                return
            time.sleep(0.1)  # as distributed itself waits
    finally:
        if client.status == "running":
            client.cancel(list(numbers))


def _threads(client: Any) -> int:
    """Of the workers that are there now."""
    try:
        return sum(client.nthreads().values()) if client.status == "running" else 0
    except OSError:  # the scheduler has just gone
        return 0


def run_request(request: str, timeout: float | None) -> str:
    """What a task does on a worker: a row as JSON."""
    return as_json(replay_in_process(from_json(Request, request), timeout))


def _row_of_task(notebook: str, future: Any) -> ReplayResult:
    try:
        return result_from_json(future.result())
    except Exception as error:  # noqa: BLE001  (whatever became of the task or its worker)
        return ReplayResult.failed(notebook, f"on the cluster: {type(error).__name__}: {one_line(str(error), 300)}")
