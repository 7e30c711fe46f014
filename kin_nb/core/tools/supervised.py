"""Commands under a supervisor (supervisor.py): they and all that they start end when kin_nb asks for it, and with kin_nb."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kin_nb.core.tools import supervisor

GRACE = supervisor.GRACE
LONGEST_END = supervisor.GRACE + supervisor.GIVE_UP + 5.0
"""Seconds after which a supervisor that was asked to end everything, and has not ended itself, is killed."""
_PROGRAM = Path(supervisor.__file__)
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


class Supervised:
    """The command line that runs `argv` under a supervisor, and the pipes to it; `close` closes them.

    Start `self.argv` with this `environment` and `pass_fds=self.fds`, in a session of its own, then call `started`. The
    process ends as the program does.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        os.set_blocking(self._report, False)
        self.fds: tuple[int, ...] = (control, report)
        self._name = argv[0] if argv else ""
        unset = "" if _SET_BY_PYTHON in environment else _SET_BY_PYTHON
        numbers = map(str, (os.getpid(), *self.fds))
        self.argv = [sys.executable, "-I", "-S", str(_PROGRAM), *numbers, unset, *argv]

    def started(self) -> None:
        """Also called when it could not be started: the child's ends are closed."""
        for descriptor in self.fds:
            os.close(descriptor)
        self.fds = ()

    def terminate(self) -> None:
        """SIGTERM to all, SIGKILL after GRACE."""
        self._ask(supervisor.TERMINATE)

    def kill(self) -> None:
        """SIGKILL to all."""
        self._ask(supervisor.KILL)

    def report(self) -> Report:
        """Read what the supervisor wrote. Call once, after its end.

        A supervisor that was killed has ended nothing: then the program's process group is killed here, and `remains` says so.
        """
        text = b""
        with suppress(BlockingIOError):
            while chunk := os.read(self._report, _REPORT):
                text += chunk
        said: dict[str, tuple[str, ...]] = {}
        for line in text.decode("utf-8", "replace").splitlines():
            what, *words = line.split("\t")
            said[what] = tuple(words)
        group = int(said.get(supervisor.STARTED, ("0",))[0])
        if group > 1 and supervisor.DONE not in said and supervisor.FAILED not in said:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
            said[supervisor.REMAINS] = (_KILLED,)
        number = int(said.get(supervisor.FAILED, ("0",))[0])
        return Report(
            error=OSError(number, os.strerror(number), self._name) if number else None,
            ended=supervisor.ENDED in said,
            swept=_once(said.get(supervisor.SWEPT, ())),
            remains=_once(said.get(supervisor.REMAINS, ())),
        )

    def close(self) -> None:
        """Once. Ends what still runs, as the end of kin_nb does."""
        if self.fds:
            self.started()
        os.close(self._control)
        os.close(self._report)

    def _ask(self, word: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self._control, word)


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
