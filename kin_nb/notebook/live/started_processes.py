"""The processes that code of the model's starts in the user's process, for when that code is interrupted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kin_nb.core.tools import supervisor

MARK = "KIN_NB_CALL"
"""A variable that processes inherit, also those that have left the session and lost their parent."""
_TICK = 0.02


@contextmanager
def started_processes() -> Iterator[StartedProcesses]:
    """What is started within can be ended by `end`. Meanwhile the environment has a variable more."""
    before = os.environ.get(MARK)
    mark = os.environ[MARK] = os.urandom(8).hex()
    try:
        yield StartedProcesses(mark)
    finally:
        os.environ.pop(MARK, None)
        if before is not None:
            os.environ[MARK] = before


class StartedProcesses:
    """Since this was made: new descendants of this process, and whatever has inherited the mark.

    Not commands and servers of kin_nb's own, which other calls may run meanwhile. On macOS the descendants only.
    """

    def __init__(self, mark: str) -> None:
        self._mark = f"{MARK}={mark}".encode()
        self._before = {(process.pid, process.started) for process in supervisor.processes().values()}

    def end(self) -> None:
        """SIGTERM, then SIGKILL, until none runs. Blocks for seconds at most."""
        self._end_by(signal.SIGTERM, supervisor.GRACE)
        self._end_by(signal.SIGKILL, supervisor.GIVE_UP)

    def _end_by(self, number: signal.Signals, seconds: float) -> None:
        end, told = time.monotonic() + seconds, set[int]()
        while (running := self._running()) and time.monotonic() < end:
            for pid in running:
                if pid not in told or number == signal.SIGKILL:
                    told.add(pid)
                    with suppress(OSError):
                        os.kill(pid, number)
            time.sleep(_TICK)

    def _running(self) -> list[int]:
        table, own = supervisor.processes(), os.getpid()
        supervised = {
            process.pid for process in table.values() if process.parent == own and _is_supervisor(process.pid)
        }
        return [
            process.pid
            for process in table.values()
            if not process.is_zombie
            and (process.pid, process.started) not in self._before
            and (process.descends_from(own, table) or self._mark in _read(process.pid, "environ").split(b"\0"))
            and not any(pid == process.pid or process.descends_from(pid, table) for pid in supervised)
        ]


def _is_supervisor(pid: int) -> bool:
    return os.fsencode(supervisor.__file__) in _read(pid, "cmdline").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
