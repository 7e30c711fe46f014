"""The same notebooks on a Dask cluster: a real scheduler and worker processes on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.pool import replay_on_dask
from tests.unit.replay.runner.test_pool import request, write

KILL_THE_DASK_WORKER = "import os, psutil; psutil.Process().parent().parent().kill()"


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    settings = {"distributed.scheduler.allowed-failures": 0}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as made,
    ):
        yield made.scheduler_address


@pytest.mark.long
@pytest.mark.kernel
@pytest.mark.filterwarnings("default")  # distributed's own
def test_a_worker_that_dies_is_a_failed_row_and_the_others_come_in_order(cluster, tmp_path):
    paths = [
        write(tmp_path / "kills.ipynb", KILL_THE_DASK_WORKER),
        write(tmp_path / "fine.ipynb", "x = 1"),
        tmp_path / "gone.ipynb",
    ]
    told = []
    rows = replay_on_dask(cluster, [request(path) for path in paths], 60, told.append)
    assert [row.exit_code for row in rows] == [1, 0, 1], [row.summary for row in rows]
    assert rows[0].error.startswith("on the cluster: KilledWorker")
    assert rows[2].error == "gone.ipynb cannot be read: No such file or directory."
    assert len(told) == 3
    assert (tmp_path / "out" / "fine" / "fine.ipynb").is_file()


@pytest.fixture
def apart(tmp_path):
    """A cluster whose scheduler is a process of its own: its address, and that process."""
    distributed = pytest.importorskip("distributed")
    known = tmp_path / "scheduler.json"
    place = ["--scheduler-file", str(known)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *place], **quiet
    )
    worker = [*dask, "worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard", *place]
    started = [scheduler, subprocess.Popen([*worker, "--local-directory", str(tmp_path / "dask")], **quiet)]
    try:
        wait_for(known.exists)
        address = json.loads(known.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        yield address, scheduler
    finally:
        for process in started:
            process.kill()
            process.wait(30)


@pytest.mark.long
@pytest.mark.kernel
@pytest.mark.filterwarnings("default")
def test_a_cluster_that_dies_leaves_a_failed_row_for_each_notebook(apart, tmp_path, monkeypatch):
    address, scheduler = apart
    monkeypatch.setattr("kin_nb.replay.runner.pool.CONNECT_SECONDS", 10)
    monkeypatch.setattr("kin_nb.replay.runner.pool.LOOK_SECONDS", 0.5)
    running = tmp_path / "running"
    source = f"import pathlib, threading; pathlib.Path({str(running)!r}).touch(); threading.Event().wait(600)"
    requests = [request(write(tmp_path / name, source)) for name in ("a.ipynb", "b.ipynb")]
    killer = threading.Thread(target=lambda: (wait_for(running.exists), scheduler.kill()))
    killer.start()
    rows = replay_on_dask(address, requests, None, lambda _: None)
    killer.join()
    assert [row.exit_code for row in rows] == [1, 1]
    assert all(row.error for row in rows)


def wait_for(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_where_no_one_answers_is_named(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("kin_nb.replay.runner.pool.CONNECT_SECONDS", 0.3)
    with pytest.raises(ReplayError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        replay_on_dask("tcp://127.0.0.1:9", [], None, print)
