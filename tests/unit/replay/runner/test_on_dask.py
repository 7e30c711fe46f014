"""The same notebooks on a Dask cluster: a real scheduler and worker processes on loopback."""

from __future__ import annotations

import pytest

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.on_dask import replay_on_dask
from tests.unit.replay.runner.test_many import request, write

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
    assert [row.exit_code for row in rows] == [1, 0, 1], [row.says for row in rows]
    assert rows[0].error.startswith("on the cluster: KilledWorker")
    assert rows[2].error == "gone.ipynb cannot be read: No such file or directory."
    assert len(told) == 3
    assert (tmp_path / "out" / "fine" / "fine.ipynb").is_file()


def test_where_nobody_answers_is_named(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("kin_nb.replay.runner.on_dask.CONNECT_SECONDS", 0.3)
    with pytest.raises(ReplayError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        replay_on_dask("tcp://127.0.0.1:9", [], None, print)
