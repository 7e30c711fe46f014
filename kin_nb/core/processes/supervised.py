"""Commands under a supervisor (supervisor.py): they and all that they start end when kin_nb asks for it, and with kin_nb."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kin_nb.core.processes import supervisor

GRACE = supervisor.GRACE
LONGEST_END = supervisor.GRACE + supervisor.GIVE_UP + 5.0
"""Seconds after which a supervisor that was asked to end everything, and has not ended itself, is killed."""
_PROGRAM = Path(supervisor.__file__)
_START = (
    "import os, sys; sys.path.append(os.path.dirname(sys.argv[1])); import supervisor; supervisor.main(sys.argv[2:])"
)
"""As an import: Python would compile a program's own file at each start."""
_REPORT = 65_536
_KILLED = "what was started may still run: its supervisor was killed"
_SET_BY_PYTHON = "LC_CTYPE"
"""In a C locale (PEP 538): the program gets the environment as it was."""


@dataclass(frozen=True)
class Report:
    """What a supervisor that has ended tells.

    `error`: why the program could not be started. `ended`: it did, before kin_nb asked for its end.
    `swept`: command lines of what was still running then, and was ended. `remains`: of what could not be ended.
    """

    error: OSError | None = None
    ended: bool = False
    swept: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


class Process(Protocol):
    """asyncio's or subprocess's."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...


def send_signal(process: Process, number: int) -> None:
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

    def terminate(self, process: Process) -> None:
        """SIGTERM to all, SIGKILL after GRACE. `process`: the supervisor's."""
        self._ask(supervisor.TERMINATE, process)

    def kill(self, process: Process) -> None:
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
            while chunk := os.read(self._report, _REPORT):
                self._text += chunk
        rows = (line.split("\t") for line in self._text.decode("utf-8", "replace").splitlines())
        return {what: tuple(words) for what, *words in rows}

    def _ask(self, word: bytes, process: Process) -> None:
        with suppress(BrokenPipeError):
            os.write(self._control, word)
        send_signal(process, signal.SIGCONT)  # should the program have stopped it


def _number(words: tuple[str, ...] | None) -> int:
    """0 for what is none: a program run by root can write to the report too."""
    return int(words[0]) if words and words[0].isascii() and words[0].isdigit() else 0


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
