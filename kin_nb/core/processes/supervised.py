"""Programs under a supervisor (supervisor.py): they and all that they start end when kin_nb asks for it, and with kin_nb.

`run_process` runs a program to its end; `Supervised` is for those that start and watch one themselves.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from kin_nb.core.processes import supervisor
from kin_nb.core.tool_types import ToolError

GRACE = supervisor.GRACE
LONGEST_END = supervisor.GRACE + supervisor.GIVE_UP + 5.0
"""Seconds after which a supervisor that was asked to end everything, and has not ended itself, is killed."""
_PROGRAM = Path(supervisor.__file__)
_START = (
    "import os, sys; sys.path.append(os.path.dirname(sys.argv[1])); import supervisor; supervisor.main(sys.argv[2:])"
)
"""Starts the supervisor by an import: Python would compile a script at each start."""
_CHUNK = 65_536
_KILLED = "what was started may still run: its supervisor was killed"
_SET_BY_PYTHON = "LC_CTYPE"
"""In a C locale (PEP 538): the program gets the environment as it was."""


@dataclass(frozen=True)
class Report:
    """What a supervisor that has ended tells.

    `error`: why the program could not be started. `ended`: it did, before kin_nb interrupted it or asked for its end.
    `swept`: command lines of what was still running then, and was ended. `remains`: of what could not be ended.
    """

    error: OSError | None = None
    ended: bool = False
    swept: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


class ChildProcess(Protocol):
    """asyncio's or subprocess's."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...


def send_signal(process: ChildProcess, number: int) -> None:
    """To a process whose end is not known yet.

    Unlike `process.send_signal` and `kill`, this does not collect the exit status: where another thread waits for it, as
    asyncio's does, that thread would find none, warn on stderr and report 255 (CPython issue 127049).
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


class Supervised:
    """The command line that runs `argv` under a supervisor, and the pipes to it; `close` closes them.

    Start `self.argv` with this `environment` and `pass_fds=self.fds`, in a session of its own, then call `started`. The
    process ends as the program does.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        os.set_blocking(self._report, False)
        self._text = b""
        self.fds: tuple[int, ...] = (control, report)
        self._name = argv[0] if argv else ""
        unset = "" if _SET_BY_PYTHON in environment else _SET_BY_PYTHON
        numbers = map(str, (os.getpid(), *self.fds))
        self.argv = [sys.executable, "-I", "-S", "-c", _START, str(_PROGRAM), *numbers, unset, *argv]

    def started(self) -> None:
        """Also called when it could not be started: the child's ends are closed."""
        for descriptor in self.fds:
            os.close(descriptor)
        self.fds = ()

    def interrupt(self, process: ChildProcess) -> None:
        """SIGINT to all, as Ctrl-C in a terminal: Python prints where it is, and ends."""
        self._ask(supervisor.INTERRUPT, process)

    def terminate(self, process: ChildProcess) -> None:
        """SIGTERM to all, SIGKILL after GRACE. `process`: the supervisor's."""
        self._ask(supervisor.TERMINATE, process)

    def kill(self, process: ChildProcess) -> None:
        """SIGKILL to all."""
        self._ask(supervisor.KILL, process)

    def report(self) -> Report:
        """What the supervisor has written until now; it is complete after its end."""
        said = self._said()
        number = _number(said.get(supervisor.FAILED))
        remains = (_KILLED,) if self._left_alone() else said.get(supervisor.REMAINS, ())
        return Report(
            error=OSError(number, os.strerror(number), self._name) if number else None,
            ended=supervisor.ENDED in said,
            swept=_once(said.get(supervisor.SWEPT, ())),
            remains=_once(remains),
        )

    def close(self) -> None:
        """Once, after the supervisor's end where it was started. Ends what still runs, as the end of kin_nb does."""
        if self.fds:
            self.started()
        group = self._left_alone()
        if group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        os.close(self._control)
        os.close(self._report)

    def _left_alone(self) -> int:
        """The process group of a program whose supervisor did not come to its end, 0 where there is none."""
        said = self._said()
        over = supervisor.DONE in said or supervisor.FAILED in said
        return 0 if over else _number(said.get(supervisor.STARTED))

    def _said(self) -> dict[str, tuple[str, ...]]:
        with suppress(BlockingIOError):
            while chunk := os.read(self._report, _CHUNK):
                self._text += chunk
        rows = (line.split("\t") for line in self._text.decode("utf-8", "replace").splitlines())
        return {what: tuple(words) for what, *words in rows}

    def _ask(self, word: bytes, process: ChildProcess) -> None:
        with suppress(BrokenPipeError):
            os.write(self._control, word)
        send_signal(process, signal.SIGCONT)  # should the program have stopped it


def _number(words: tuple[str, ...] | None) -> int:
    """Read a number; 0 for invalid text, since a program run by root can write to the report too."""
    return int(words[0]) if words and words[0].isascii() and words[0].isdigit() else 0


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


_DRAIN = 0.2
"""Seconds that processes which could not be ended get for their last words after the program has ended."""
_TIMED_OUT = 124
_INTERRUPT_GRACE = 3.0
"""Seconds in which a program whose time is up may say where it is, after SIGINT."""

Sink = Callable[[bytes], bool]


@dataclass(frozen=True)
class Ended:
    """How a program ended. `exit_code` is 128 + n after signal n, and 124 after a timeout, as for timeout(1).

    `swept`: command lines of what it left running, which was ended. `remains`: of what could not be ended.
    """

    exit_code: int
    timed_out: bool = False
    swept: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    sink: Sink,
    stderr: IO[bytes] | None = None,
) -> Ended:
    """Run `argv` with stdin closed until it ends, `seconds` are over, or `sink` returns True (enough).

    `sink` gets stdout as it arrives, with stderr merged in order unless it has a file of its own. Time up, enough and
    cancellation end the program and all that it started: SIGTERM, then SIGKILL after GRACE; when the time is up SIGINT comes
    first, so that it can say where it is. So does the end of this process, and what is still running when the program has
    ended by itself is ended too. Raises ToolError when `argv` cannot be started.
    """
    read_end, write_end = os.pipe()
    command = Supervised(argv, environment)
    try:
        try:
            start = asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=asyncio.subprocess.STDOUT if stderr is None else stderr,
                cwd=cwd,
                env=dict(environment),
                start_new_session=True,
                pass_fds=command.fds,
            )
            process = await _started(start, command)
        except (OSError, ValueError) as error:
            raise ToolError(f"The command could not be started: {error}") from error
        finally:
            command.started()
            os.close(write_end)
        return await _watch(process, command, _Output(read_end, sink), seconds)
    finally:
        command.close()
        os.close(read_end)


async def _started(
    start: Coroutine[Any, Any, asyncio.subprocess.Process], command: Supervised
) -> asyncio.subprocess.Process:
    """Start the supervisor. On cancellation, asyncio would end it alone and leave its children running; this ends them too."""
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({starting})
        if starting.exception() is None:
            process = starting.result()
            await _end(process, command, asyncio.ensure_future(process.wait()))
        raise


async def _watch(process: asyncio.subprocess.Process, command: Supervised, output: _Output, seconds: float) -> Ended:
    exited = asyncio.ensure_future(process.wait())
    try:
        over: set[asyncio.Future[Any]] = {exited, output.enough}
        await asyncio.wait(over, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        timed_out = not exited.done() and not output.enough.done()
        if timed_out:
            command.interrupt(process)
            await asyncio.wait(over, timeout=_INTERRUPT_GRACE, return_when=asyncio.FIRST_COMPLETED)
    finally:
        try:
            if not exited.done():
                await _end(process, command, exited)
        finally:  # also after a second cancellation: the loop must not watch a closed descriptor
            await output.drain()
    code, report = exited.result(), command.report()
    if report.error is not None:
        raise ToolError(f"The command could not be started: {report.error}")
    timed_out = timed_out and not report.ended
    return Ended(
        exit_code=_TIMED_OUT if timed_out else 128 - code if code < 0 else code,
        timed_out=timed_out,
        swept=report.swept,
        remains=report.remains,
    )


async def _end(process: asyncio.subprocess.Process, command: Supervised, exited: asyncio.Future[int]) -> None:
    command.terminate(process)
    try:
        await asyncio.wait({exited}, timeout=LONGEST_END)
    finally:
        if not exited.done():  # cancelled once more, or the supervisor itself does not run
            command.kill(process)
            await asyncio.wait({exited}, timeout=LONGEST_END)
        if not exited.done():
            send_signal(process, signal.SIGKILL)
    await exited


class _Output:
    """The reading end of the pipe: hands what arrives to the sink until end of file, or until it has enough."""

    def __init__(self, descriptor: int, sink: Sink) -> None:
        self._descriptor, self._sink = descriptor, sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.enough: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> bool:
        """Whether there was something to read."""
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._descriptor)
            self.ended.set_result(None)
        elif self._sink(chunk):
            self._loop.remove_reader(self._descriptor)
            self.enough.set_result(None)
        return True

    async def drain(self) -> None:
        """Read what is left, without waiting for processes that keep the pipe open."""
        try:
            while not (self.ended.done() or self.enough.done()) and self._read():
                pass
            await asyncio.wait({self.ended, self.enough}, timeout=_DRAIN, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop.remove_reader(self._descriptor)
