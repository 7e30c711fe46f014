"""The supervisor of one command: a small program between kin_nb and what it runs, so that nothing outlives either.

    python -I -S supervisor.py PARENT CONTROL REPORT UNSET PROGRAM [ARGUMENT ...]

PARENT is kin_nb's process id, CONTROL and REPORT are descriptors of pipes; supervised.py is the other end of both. UNSET
is a variable that Python itself may have set here, "" for none. The program gets stdin, stdout, stderr, folder and
environment as they are here, in a session of its own. The supervisor ends it with everything that it started when kin_nb
asks for that or is gone, however that happened; and what is still running when the program has ended by itself.

On Linux the supervisor is a child subreaper: processes whose parent has ended become its children, also after setsid and
a double fork. Elsewhere it finds the descendants that still have their parent, and the program's process group.

It exits as the program did, with the same code or by the same signal.

Every command waits until this program has started: it does without `typing`, `contextlib` and `dataclasses`, which would
take half of that time.
"""

# ruff: noqa: SIM105  (contextlib.suppress, see above)
from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping

SETTLE = 0.2
"""Seconds in which what the program has started may end by itself after it."""
GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
GIVE_UP = 5.0
"""Seconds after which a process that SIGKILL does not end is left alone: one of another user."""
INTERRUPT, TERMINATE, KILL = b"I", b"T", b"K"
STARTED, FAILED, ENDED, SWEPT, REMAINS, DONE = "started", "failed", "ended", "swept", "remains", "done"
"""What a line of the report begins with."""
_TICK = 0.02
_LOOK = 1.0
"""Seconds between two looks at the parent where no descriptor tells of its end."""
_CANNOT_START = 127
_LONGEST_NAME = 60
_LONGEST_LINE = 4_000
"""Bytes that are written to a pipe atomically (PIPE_BUF), minus the end of the line."""
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""From the beginning: they are for the program. SIGTERM asks for the end of all as soon as that has begun."""


class Process:
    """A running process. `started`: in ticks since the system's start, 0 when unknown."""

    __slots__ = ("group", "is_zombie", "parent", "pid", "started")

    def __init__(self, pid: int, parent: int, group: int, is_zombie: bool, started: int = 0) -> None:
        self.pid, self.parent, self.group, self.is_zombie, self.started = pid, parent, group, is_zombie, started

    def descends_from(self, ancestor: int, table: Mapping[int, Process]) -> bool:
        process, seen = self, {self.pid}
        while process.parent != ancestor:
            if process.parent in seen or process.parent not in table:
                return False
            process = table[process.parent]
            seen.add(process.pid)
        return True


def processes() -> dict[int, Process]:
    """Return all processes by id; empty where the system does not list them."""
    return {process.pid: process for process in (_by_proc() or _by_ps())}


def main(arguments: list[str]) -> None:
    parent, control, report, unset, *argv = arguments
    os.environ.pop(unset, None)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED}
    adopts = _control_process(_SET_CHILD_SUBREAPER, 1)
    _control_process(_SET_DUMPABLE, 0)  # no core file when it ends by the program's signal
    for descriptor in (int(control), int(report)):
        os.set_inheritable(descriptor, False)
    supervisor = _Supervisor(int(parent), int(control), int(report), adopts=adopts)
    status = supervisor.run(argv, before)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        try:
            signal.signal(-code, signal.SIG_DFL)
        except (OSError, ValueError):  # SIGKILL has no handler
            pass
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


class _Supervisor:
    """`adopts`: orphaned descendants become its children, so that it has no child exactly when nothing is left."""

    def __init__(self, parent: int, control: int, report: int, *, adopts: bool) -> None:
        self._parent, self._control, self._report, self._adopts = parent, control, report, adopts
        self._program = 0
        self._status: int | None = None
        self._childless = False
        self._asked = b""
        self._interrupted = False
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._pidfd = _pidfd(parent)
        if self._pidfd >= 0:
            self._poll.register(self._pidfd, select.POLLIN)
        self._wake, wake = os.pipe()
        for descriptor in (self._wake, wake):
            os.set_blocking(descriptor, False)
        self._poll.register(self._wake, select.POLLIN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self, argv: list[str], signals: Mapping[signal.Signals, object]) -> int:
        """The program's wait status."""
        if os.getppid() != self._parent:
            return 0
        try:
            self._start(argv, signals)
        except OSError as error:
            self._tell(FAILED, f"{error.errno}")
            return _CANNOT_START << 8
        signal.signal(signal.SIGTERM, self._on_sigterm)
        while self._status is None and not self._asked:
            self._wait(None)
        if not self._asked:
            self._until_alone(SETTLE)
        by_itself = self._status is not None and not self._asked and not self._interrupted
        remaining = [] if self._alone() else list(self._descendants())
        if by_itself:
            self._tell(SWEPT, *(_name(process.pid) for process in remaining))
        self._sweep()
        self._tell(DONE)
        return signal.SIGKILL if self._status is None else self._status

    def _start(self, argv: list[str], signals: Mapping[signal.Signals, object]) -> None:
        """Raises OSError where the system has no process or descriptor left."""
        null = os.open(os.devnull, os.O_RDWR)
        self._program = os.fork()
        if self._program:
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            return
        try:
            os.setsid()
            self._tell(STARTED, f"{os.getpid()}")
            _control_process(_SET_PDEATHSIG, signal.SIGKILL)  # should the supervisor itself be killed
            signal.set_wakeup_fd(-1)
            for number, handler in signals.items():
                signal.signal(number, signal.SIG_IGN if handler == signal.SIG_IGN else signal.SIG_DFL)
            for name in ("SIGCHLD", "SIGPIPE", "SIGXFSZ"):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            os.execvp(argv[0], argv)  # noqa: S606  (what it is for)
        except OSError as error:
            self._tell(FAILED, f"{error.errno}")
        finally:
            os._exit(_CANNOT_START)

    def _sweep(self) -> None:
        """SIGTERM, then SIGKILL, until nothing is left."""
        if self._alone():
            return
        if self._asked != KILL:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # one that is stopped gets it too
            self._until_alone(GRACE)
        end = time.monotonic() + GIVE_UP
        while not self._alone() and time.monotonic() < end:
            self._signal(signal.SIGKILL)
            self._wait(_TICK)
        if not self._alone():
            self._tell(REMAINS, *(_name(process.pid) for process in self._descendants()))

    def _until_alone(self, seconds: float) -> None:
        """Wait until no child is left, at most `seconds`, or until kin_nb asks for a harder end."""
        end, asked = time.monotonic() + seconds, self._asked
        while not self._alone() and self._asked == asked and (left := end - time.monotonic()) > 0:
            self._wait(left if self._adopts else min(left, _TICK))

    def _alone(self) -> bool:
        self._reap()
        return self._childless and (self._adopts or not any(self._descendants()))

    def _reap(self) -> None:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._program:
                    self._status = ended[1]
                    if not self._asked and not self._interrupted:
                        self._tell(ENDED)
        except ChildProcessError:
            self._childless = True

    def _wait(self, seconds: float | None) -> None:
        """Until a child ends, kin_nb asks for something or ends, or the time is up."""
        if self._pidfd < 0:
            seconds = _LOOK if seconds is None else min(seconds, _LOOK)
        for descriptor, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if descriptor == self._wake:
                os.read(self._wake, 512)
            elif descriptor == self._control:
                self._ask(os.read(self._control, 1))
            else:
                self._poll.unregister(descriptor)
                self._asked = self._asked or TERMINATE
        if self._pidfd < 0 and os.getppid() != self._parent:
            self._asked = self._asked or TERMINATE
        self._reap()

    def _on_sigterm(self, *_: object) -> None:
        self._asked = self._asked or TERMINATE

    def _ask(self, word: bytes) -> None:
        if not word:
            self._poll.unregister(self._control)
        if word == INTERRUPT:
            self._interrupted = True
            self._signal(signal.SIGINT)
            self._signal(signal.SIGCONT)  # one that is stopped gets it too
            return
        if self._asked != KILL:
            self._asked = word or self._asked or TERMINATE

    def _signal(self, number: int) -> None:
        for process in self._descendants():
            try:
                os.kill(process.pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def _descendants(self) -> Iterator[Process]:
        """Yield the running descendants. Outside Linux, those that left the program's group and lost their parent are missed."""
        table, own = processes(), os.getpid()
        for process in table.values():
            if not process.is_zombie and (process.group == self._program or process.descends_from(own, table)):
                yield process

    def _tell(self, what: str, *words: str) -> None:
        text = "\t".join([what, *(word.replace("\t", " ").replace("\n", " ") for word in words)])
        try:
            os.write(self._report, text.encode("utf-8", "surrogateescape")[:_LONGEST_LINE] + b"\n")
        except OSError:
            pass


def _control_process(option: int, value: int) -> bool:
    """Call Linux's prctl. Return whether it exists and succeeded."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # noqa: PLC0415  (Linux only)

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable when the process ends, -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _by_proc() -> list[Process]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208  (loads no module)
    except OSError:
        return []
    found = []
    for name in filter(str.isdigit, names):
        try:
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            parent, group, started = (int(fields[i]) for i in (1, 2, 19))  # proc(5), without the first two
        except (OSError, ValueError, IndexError):
            continue
        found.append(Process(int(name), parent, group, fields[0] in b"ZX", started))
    return found


def _by_ps() -> list[Process]:
    reading, writing = os.pipe()
    words = ["ps", "-axo", "pid=,ppid=,pgid=,stat="]
    try:
        ps = os.posix_spawnp("ps", words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    except OSError:
        return []
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as output:
        rows = [line.split() for line in output]
    try:
        os.waitpid(ps, 0)
    except ChildProcessError:
        pass
    found = [Process(int(row[0]), int(row[1]), int(row[2]), row[3][:1] == b"Z") for row in rows if len(row) > 3]  # noqa: PLR2004
    return [process for process in found if process.pid != ps]


def _name(pid: int) -> str:
    """Its command line, cut; "a process" where that cannot be read."""
    try:
        words = _read(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        words = ""
    return (words if len(words) <= _LONGEST_NAME else f"{words[:_LONGEST_NAME]}…") or "a process"


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4_096)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
