"""Many notebooks on an existing Dask cluster: each task runs the process that `-j` runs, where the worker is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any

from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.many import OnRow, replay_in_process
from kin_nb.replay.runner.rows import Row, as_json, from_json, row_from
from kin_nb.replay.runner.worker import Request

CONNECT_SECONDS = 30


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
        threads = sum(client.nthreads().values())
        if not threads:
            raise ReplayError(f"The Dask cluster at {address} has no workers. Start one: dask worker {address}")
        limit = None if timeout is None else CONNECT_SECONDS + timeout * len(requests)
        rows: dict[int, Row] = {}
        for n, future in _as_they_come(distributed, client, requests, timeout, threads, limit):
            rows[n] = _row(requests[n].notebook, future)
            on_row(rows[n])
    return [
        rows.get(n) or Row.failed(request.notebook, "no worker of the cluster gave an answer in time")
        for n, request in enumerate(requests)
    ]


def _as_they_come(
    distributed: Any, client: Any, requests: Sequence[Request], timeout: float | None, threads: int, limit: float | None
) -> Iterator[tuple[int, Any]]:
    """(number of the request, finished future), until all are there or `limit` seconds are over.

    No more tasks than the cluster has `threads`: one that waited on a worker that dies would be blamed for it too.
    """
    waiting = iter(enumerate(requests))
    numbers: dict[Any, int] = {}

    def submitted() -> Iterator[Any]:
        for n, request in waiting:
            future = client.submit(run_request, as_json(request), timeout, retries=0, pure=False)
            numbers[future] = n
            yield future

    more = submitted()
    done = distributed.as_completed(list(islice(more, threads)), loop=client.loop, timeout=limit)
    try:
        with suppress(TimeoutError):
            for future in done:
                yield numbers.pop(future), future
                done.update(islice(more, 1))
    finally:
        client.cancel(list(numbers))


def run_request(request: str, timeout: float | None) -> str:
    """What a task does on a worker: a row as JSON."""
    return as_json(replay_in_process(from_json(Request, request), timeout))


def _row(notebook: str, future: Any) -> Row:
    try:
        return row_from(future.result())
    except Exception as error:  # noqa: BLE001  (whatever became of the task or its worker)
        return Row.failed(notebook, f"on the cluster: {type(error).__name__}: {one_line(str(error), 300)}")
