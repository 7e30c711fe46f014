"""`kin-nb run` caught in the middle of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.model_server import tool_call
from tests.notebook.people import environment


@contextmanager
def running(
    server, home, workspace, command: str = "echo $$ > ready; exec sleep 60", **popen: Any
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """(`kin-nb run` while its bash call runs `sleep 60`, the process id of that sleep). Both are gone afterwards."""
    ready = workspace / "ready"
    os.mkfifo(ready)
    server.enqueue("I wait.", calls=[tool_call("bash", command=command)])
    process = subprocess.Popen(
        [sys.executable, "-m", "kin_nb.cli", "run", "-p", "Wait.", "--mode", "auto-approve"],
        cwd=workspace,
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **popen,
    )
    child = int(ready.read_text())  # opens when bash has come that far
    ready.unlink()
    try:
        yield process, child
    finally:
        for pid in (process.pid, child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)


def has_ended(pid: int, seconds: float = 60) -> bool:
    """Wait for the end of a process that is not our child."""
    try:
        if sys.platform != "linux":
            psutil.Process(pid).wait(seconds)
            return True
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def pid_in(fifo: Path) -> int:
    """Wait for the process id that a command writes into a named pipe."""
    (word,) = words_in(fifo)
    return int(word)


def words_in(fifo: Path, seconds: float = 60) -> list[str]:
    """Wait for what another process writes into a named pipe."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([descriptor], [], [], seconds)[0], "nothing was written"
        return os.read(descriptor, 4_096).decode().split()
    finally:
        os.close(descriptor)
