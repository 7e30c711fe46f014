"""`%load_ext kin_nb` in a bare kernel: seconds over an empty cell. Budget: 0.15."""

from __future__ import annotations

import statistics
import time

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from benchmarks.sizes import sized

RUNS = sized(5, 1)


def seconds(client: BlockingKernelClient, code: str) -> float:
    started = time.perf_counter()
    reply = client.execute_interactive(code, timeout=60, output_hook=lambda _: None)
    assert reply["content"]["status"] == "ok", reply["content"]
    return time.perf_counter() - started


def one_run() -> float:
    manager, client = start_new_kernel()
    try:
        seconds(client, "1")
        empty = seconds(client, "1")
        return seconds(client, "%load_ext kin_nb") - empty
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    runs = [one_run() for _ in range(RUNS)]
    print(f"%load_ext kin_nb: median {statistics.median(runs):.3f} s, worst {max(runs):.3f} s of {RUNS}")
