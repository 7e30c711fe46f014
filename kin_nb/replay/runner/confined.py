"""A play that cannot do harm, and what a save reports of it.

It runs in a copy of the files, confined by bubblewrap, without network and secrets, for a limited time.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from kin_nb.core.config import KinConfig
from kin_nb.core.interrupts import Interrupted
from kin_nb.core.safety.secrets import child_environment, key_names
from kin_nb.core.tools.builtins import sandbox
from kin_nb.core.tools.builtins.run_later import Look
from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.taken_out import HiddenText
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.workspace_copy import Most
from kin_nb.replay.runner.place import copy_around, kernel_environment
from kin_nb.replay.runner.played import Failure, Played, in_words, not_its_own
from kin_nb.replay.saving.preflight import Preflight

WORKER = (sys.executable, "-P", "-m", "kin_nb.replay.runner.worker", "confined")
"""-P: a module that lies in the current directory is none of ours."""
MOST = Most(files=10_000, size=200 * 1024**2)
"""Of files that are copied for it, which nobody asked for."""
_SERVICES = ("DISPLAY", "WAYLAND_DISPLAY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST")
"""Where something outside of the confinement can be reached."""
_OF_ITS_OWN = {"KIN_HOME": "/tmp/kin-code", "IPYTHONDIR": "/tmp/ipython", "MPLCONFIGDIR": "/tmp/matplotlib"}  # noqa: S108
"""In a /tmp that only the play sees."""
_TAIL = 2000

OnCell = Callable[[int, int], None]
"""(number of the cell that began, from 1, Markdown too; how many there are)."""


@dataclass(frozen=True)
class ConfinedPlay:
    """The play of the notebook at `path`; `nb` is what it holds. `seconds`: from the start of its process to its end."""

    path: Path
    nb: Any
    recording: Recording
    config: KinConfig
    seconds: int

    @property
    def environment(self) -> dict[str, str]:
        """This process's, without secrets and what leads to services."""
        given = child_environment(kernel_environment(self.path), also=key_names(self.config))
        return {name: value for name, value in given.items() if name not in _SERVICES} | _OF_ITS_OWN

    @property
    def withheld(self) -> set[str]:
        """The variables that it lacks."""
        return set(os.environ) - set(self.environment)

    def run(self, on_cell: OnCell) -> Played:
        """No process is left, also when it is interrupted. Raises ReplayError, OSError saying why nothing was played."""
        why = sandbox.problem(self.path.parent, network=False)
        if why:
            raise ReplayError(why)
        with copy_around(self.path, self.recording, MOST) as (folder, copied):
            inside = copied / self.path.relative_to(folder)
            places = {"KIN_RECORDING": str(inside), "JPY_SESSION_NAME": str(inside)}
            hidden = HiddenText.of(self.nb)
            argv = [*WORKER, str(inside), str(_memory()), str(hidden.number)]
            command = sandbox.confined(argv, copied, Look(), network=False, closed=sandbox.sockets())
            with tempfile.TemporaryFile() as stderr:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env={**self.environment, **places},
                    start_new_session=True,  # a group that can be ended as a whole, and that no Ctrl-C reaches
                )
                try:
                    played = self._followed(process, on_cell)
                finally:
                    _end(process)
                return _as_named(played, copied, folder) if played else _complain(process, stderr)

    def _followed(self, process: subprocess.Popen[bytes], on_cell: OnCell) -> Played | None:
        """Until it ends or its time does; None when it ended without a word."""
        count, at = len(self.nb["cells"]), 0
        for line in _lines(process, time.monotonic() + self.seconds):
            if line is None:
                return Played.of(self.nb, at)
            cell = line.get("cell")
            number = cell if isinstance(cell, int) and 0 < cell <= count else 0
            if line.get("ended"):
                name, text, traceback = (str(line.get(each, "")) for each in ("name", "text", "traceback"))
                if not number:
                    return Played.of(self.nb, None)
                return Played.of(self.nb, number - 1, Failure(name, text, traceback))
            if number:
                at = number - 1
                on_cell(number, count)
        return None


def _as_named(played: Played, copied: Path, folder: Path) -> Played:
    """Files of the copy by the names that the person knows."""
    if played.failure is None:
        return played
    return replace(played, failure=replace(played.failure, text=played.failure.text.replace(str(copied), str(folder))))


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[dict[str, Any] | None]:
    """What it says, as it comes; None when the time is over. What is no line of the worker's is left out."""
    rest, stdout = b"", cast("IO[bytes]", process.stdout)
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield None
                return
            read = os.read(stdout.fileno(), 1 << 16)
            if not read:
                return
            *whole, rest = (rest + read).split(b"\n")
            for line in whole:
                with suppress(ValueError, RecursionError):
                    said = json.loads(line)
                    if isinstance(said, dict):
                        yield said


def _end(process: subprocess.Popen[bytes]) -> None:
    """With the group's death its namespace ends, and with that every process in it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _complain(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> NoReturn:
    """It ended without a word: its last one is why."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _TAIL))
    last = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
    raise ReplayError(f"its process ended with {process.returncode}{': ' if last else ''}{one_line(last, 300)}")


def _memory() -> int:
    """Half of what is free: the person's own programs need the rest. 0 where that cannot be told."""
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        return int(found[1]) * 1024 // 2 if found else 0
    return 0


@dataclass(frozen=True)
class AfterSaving:
    """`played`: to its end. `stops`: something was found that stops a replay, by a play or by reading."""

    lines: list[str]
    stops: bool
    played: bool = False


def only_read(read: Preflight, shown: str, why: str = "") -> AfterSaving:
    """`shown`: the notebook as it was named. `why` it was not played, "" where that was not wanted."""
    not_run = f"Not played after saving: {why.rstrip('.')}." if why else "Not run after saving."
    check = f"{not_run} To play it once in a copy{', unconfined' if why else ''}: {_check(shown)}"
    return AfterSaving([*read.lines(), check], stops=bool(read.stops))


def played_after_saving(
    play: ConfinedPlay, read: Preflight, shown: str, clean: Callable[[str], str], on_cell: OnCell
) -> AfterSaving:
    """`clean` takes out of a text what a save takes out. Ctrl-C ends the play, and the save stands."""
    try:
        played = play.run(on_cell)
    except Interrupted:
        raise
    except KeyboardInterrupt:
        return only_read(read, shown, "you interrupted it")
    except (ReplayError, OSError) as wrong:
        return only_read(read, shown, clean(str(wrong)))
    lacks, shown_play = "", played
    if played.failure:
        lacks = not_its_own(played.failure, play.withheld, lambda name: is_there(play.path, name), clean)
        shown_play = replace(
            played, failure=played.failure.cleaned(clean)
        )  # before it is cut: half of a secret is no match
    own = played.failure is not None and not lacks
    line = clean(in_words(shown_play, play.seconds, lacks))
    if played.whole:
        return AfterSaving([line, *read.notes], stops=False, played=True)
    left = read.lines(beyond=_last_known(played, own=own))
    return AfterSaving([f"{line} To play it whole: {_check(shown)}", *left], stops=own or bool(read.stops))


def is_there(path: Path, name: str) -> bool:
    """Whether the file `name` is there for a cell of the notebook at `path`."""
    try:
        return (path.parent / name).exists()
    except (OSError, ValueError):
        return False


def _last_known(played: Played, *, own: bool) -> int:
    return played.at if own else max(0, played.at - 1)


def _check(shown: str) -> str:
    return f"kin-nb save {shlex.quote(shown)} --check"
