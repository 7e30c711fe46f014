"""Seconds from Interrupt to a usable kernel: while the answer streams, a card waits, a command runs. Budget: 1."""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kernel")]

from notebook_client import LiveKernel  # noqa: E402

from benchmarks.sizes import sized  # noqa: E402
from tests.model_server import ModelServer, tool_call  # noqa: E402

RUNS = sized(5, 1)
SLEEP = "echo $$ > pid; printf 'star%s\\n' ted; sleep 60"


def seconds(kernel: LiveKernel, cell: str) -> float:
    """From the signal until the next cell has its answer."""
    started = time.perf_counter()
    kernel.interrupt()
    kernel.done(cell)
    kernel.done(kernel.run("1"))
    return time.perf_counter() - started


def shows(kernel: LiveKernel, text: str) -> None:
    kernel.until(lambda m: text in str(m["content"].get("data", {}).get("text/plain", "")))


def streaming(kernel: LiveKernel, server: ModelServer) -> float:
    hold = threading.Event()
    server.enqueue("The beginning of it.", hold=hold)
    cell = kernel.run("%%kin\ngo")
    shows(kernel, "The begi")
    spent = seconds(kernel, cell)
    hold.set()
    return spent


def asking(kernel: LiveKernel, server: ModelServer) -> float:
    server.enqueue(calls=[tool_call("bash", command="true")])
    cell = kernel.run("%%kin\ngo")
    kernel.card(cell)
    return seconds(kernel, cell)


def running(kernel: LiveKernel, server: ModelServer) -> float:
    server.enqueue(calls=[tool_call("bash", command=SLEEP)])
    cell = kernel.run("%%kin --mode auto-approve\ngo")
    shows(kernel, "started")
    return seconds(kernel, cell)


def main() -> None:
    with ModelServer.start() as server, tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config.toml").write_text(
            f'active_model = "m"\n[[providers]]\nname = "p"\napi_base = "{server.url}"\n'
            '[[models]]\nname = "m"\nprovider = "p"\n'
        )
        kernel = LiveKernel([ROOT], {"KIN_HOME": folder, "IPYTHONDIR": folder}, subshells=False)
        try:
            kernel.done(kernel.run(f"import os; os.chdir({folder!r})\n%load_ext kin_nb"))
            for state in (streaming, asking, running):
                runs = []
                for _ in range(RUNS):
                    kernel.seen.clear()
                    runs.append(state(kernel, server))
                print(
                    f"interrupt while {state.__name__}: median {statistics.median(runs):.2f} s, worst {max(runs):.2f} s"
                )
        finally:
            kernel.close()


if __name__ == "__main__":
    main()
