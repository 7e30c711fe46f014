"""Many notebooks on an existing Dask cluster: each task runs the process that `-j` runs, where the worker is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.many import OnRow, replay_in_process
from kin_nb.replay.runner.rows import Row, as_json, from_json, row_from
from kin_nb.replay.runner.worker import Request

CONNECT_SECONDS = 30
"""For how long a cluster may have no workers, or no scheduler that answers."""
LOOK_SECONDS = 5


def replay_on_dask(address: str, requests: Sequence[Request], timeout: float | None, on_row: OnRow) -> list[Row]:
    """As many.replay_many. A task that fails or whose worker dies is a failed row.

    Paths have to mean the same to the workers. Raises ReplayError when `distributed` is not installed, or nobody answers
    at `address` (tcp://HOST:PORT).
    """
    try:
        distributed: Any = import_module("distributed")  # the extra `dask`, which has no types
    except ImportError:
        raise ReplayError("--dask needs dask.distributed: pip install 'kin_nb[dask]'") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ReplayError(f"No Dask scheduler answers at {address}: {one_line(str(error), 200)}") from None
    with client:
        threads = _threads(client)
        if not threads:
            raise ReplayError(f"The Dask cluster at {address} has no workers. Start one: dask worker {address}")
        limit = None if timeout is None else CONNECT_SECONDS + timeout * len(requests)
        rows: dict[int, Row] = {}
        for n, future in _as_they_come(distributed, client, requests, timeout, threads, limit):
            rows[n] = _row(requests[n].notebook, future)
            on_row(rows[n])
    return [
        rows.get(n) or Row.failed(request.notebook, "no worker of the cluster gave an answer in time, or none was left")
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


def _row(notebook: str, future: Any) -> Row:
    try:
        return row_from(future.result())
    except Exception as error:  # noqa: BLE001  (whatever became of the task or its worker)
        return Row.failed(notebook, f"on the cluster: {type(error).__name__}: {one_line(str(error), 300)}")
