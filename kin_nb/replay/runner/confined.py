"""A confined play of a notebook, and the report of its outcome for a save.

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
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import key_names
from kin_nb.core.environment import child_environment
from kin_nb.core.interrupts import Interrupted
from kin_nb.core.text import last_line
from kin_nb.core.tools.builtins import sandbox
from kin_nb.core.tools.builtins.sandbox import WorkspaceScan
from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.redacted_text import HiddenText
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.workspace_copy import CopyLimit
from kin_nb.replay.runner.run_environment import copy_surrounding_folder, kernel_environment
from kin_nb.replay.saving.preflight import Preflight

_NETWORK = re.compile(
    r"(?i)name resolution|name or service not known|no address associated|nodename nor servname|could not resolve host"
    r"|failed to resolve|network is unreachable|cannot assign requested address|connection refused|max retries exceeded"
)
_READ_ONLY = re.compile(r"\[Errno 30\]|(?i:read-only file system)|attempt to write a readonly database")
_DATABASE = "unable to open database file"
_REPOSITORY = re.compile(r"(?i)not a git repository|^Command '(?:\['git'|git )[^\n]* exit status 128\b")
_MISSING = re.compile(r"No such file or directory(?: \(os error 2\))?: (?:'([^']+)'|([^'\n]+))")
_LONGEST = 400


@dataclass(frozen=True)
class CellFailure:
    """What a cell raised: the exception's name, its text, and all of its traceback without colours."""

    name: str
    text: str = ""
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else self.name

    @property
    def missing_file(self) -> str:
        """The file that it says is not there, "" when it says none."""
        found = _MISSING.search(self.text)
        return found[1] or found[2] if found else ""

    def cleaned(self, clean: Callable[[str], str]) -> CellFailure:
        return CellFailure(clean(self.name), clean(self.text), clean(self.traceback))


@dataclass(frozen=True)
class PlayResult:
    """`ran` of `cells` code cells ran to their end. `at`: the cell (from 1, Markdown too) at which it ended, 0 where all ran.

    `failure`: how it ended there; None where it took too long.
    """

    cells: int
    ran: int
    at: int = 0
    failure: CellFailure | None = None

    @classmethod
    def of(cls, nb: Any, at: int | None, failure: CellFailure | None = None) -> PlayResult:
        """`at`: the index of the cell of `nb` at which it ended, None where all of them ran."""
        code = [n for n, cell in enumerate(nb["cells"]) if cell["cell_type"] == "code" and cell["source"].strip()]
        ran = sum(at is None or n < at for n in code)
        return cls(len(code), ran, 0 if at is None else at + 1, failure)

    @property
    def is_complete(self) -> bool:
        return self.ran == self.cells and not self.at


def confinement_cause(
    failure: CellFailure, withheld: Collection[str], is_there: Callable[[str], bool], clean: Callable[[str], str]
) -> str:
    """Name what the confinement kept from a cell, "" when the error has no known sign of it.

    `withheld`: environment variables that were removed. `is_there`: whether a file exists in the notebook's folder. `clean`
    redacts a file's name.
    """
    if _NETWORK.search(failure.text) or _NETWORK.search(failure.traceback):
        return "needs the network"
    if variable := next((word for word in re.findall(r"\w+", failure.text) if word in withheld), ""):
        return f"needs the variable {variable}, which may hold a secret"
    if _READ_ONLY.search(failure.text):
        return "writes outside of the copy"
    if _DATABASE in failure.text:
        return "may need a database outside of the copy"
    if _REPOSITORY.search(failure.text):
        return "needs a git repository, which the copy is not"
    if failure.missing_file and is_there(failure.missing_file):
        return f"reads {one_line(clean(failure.missing_file), _LONGEST)}, which is not in the copy"
    return "needs more memory" if failure.name.endswith("MemoryError") else ""


def describe_play(played: PlayResult, seconds: int, lacks: str) -> str:
    """One sentence; `lacks`: what `confinement_cause` says of its failure."""
    before = f"{played.ran} of {played.cells} cells ran"
    if played.is_complete:
        return f"Played once, without network, in a copy: {before}."
    if played.failure is None:
        return f"Stopped after {seconds} s in cell {played.at}; {before}."
    if lacks:
        return f"Cell {played.at} {lacks}, so a play confined to a copy ends there; {before}."
    return f"Stopped at cell {played.at}: {one_line(str(played.failure), _LONGEST)} (played once, in a copy; {before})."


WORKER = (sys.executable, "-P", "-m", "kin_nb.replay.runner.run_notebook", "confined")
"""-P: a module that lies in the current directory is none of ours."""
COPY_LIMIT = CopyLimit(files=10_000, size=200 * 1024**2)
"""Of files that are copied for it, without being asked for."""
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
    def removed_variables(self) -> set[str]:
        """The variables that it lacks."""
        return set(os.environ) - set(self.environment)

    def run(self, on_cell: OnCell) -> PlayResult:
        """No process is left, also when it is interrupted. Raises ReplayError, OSError saying why nothing was played."""
        why = sandbox.problem(self.path.parent, network=False)
        if why:
            raise ReplayError(why)
        with copy_surrounding_folder(self.path, self.recording, COPY_LIMIT) as (folder, copied):
            inside = copied / self.path.relative_to(folder)
            places = {"KIN_RECORDING": str(inside), "JPY_SESSION_NAME": str(inside)}
            hidden = HiddenText.of(self.nb)
            argv = [*WORKER, str(inside), str(_memory()), str(hidden.number)]
            command = sandbox.confined(argv, copied, WorkspaceScan(), network=False, closed=sandbox.sockets())
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

    def _followed(self, process: subprocess.Popen[bytes], on_cell: OnCell) -> PlayResult | None:
        """Until it ends or its time does; None when it ended without a word."""
        count, at = len(self.nb["cells"]), 0
        for line in _lines(process, time.monotonic() + self.seconds):
            if line is None:
                return PlayResult.of(self.nb, at)
            cell = line.get("cell")
            number = cell if isinstance(cell, int) and 0 < cell <= count else 0
            if line.get("ended"):
                name, text, traceback = (str(line.get(each, "")) for each in ("name", "text", "traceback"))
                if not number:
                    return PlayResult.of(self.nb, None)
                return PlayResult.of(self.nb, number - 1, CellFailure(name, text, traceback))
            if number:
                at = number - 1
                on_cell(number, count)
        return None


def _as_named(played: PlayResult, copied: Path, folder: Path) -> PlayResult:
    """Files of the copy by the names that the person knows."""
    if played.failure is None:
        return played
    return replace(played, failure=replace(played.failure, text=played.failure.text.replace(str(copied), str(folder))))


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[dict[str, Any] | None]:
    """Yield the worker's messages as they arrive, None when the time is over. Other lines are ignored."""
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
    last = last_line(stderr.read().decode(errors="replace"))
    raise ReplayError(f"its process ended with {process.returncode}{': ' if last else ''}{one_line(last, 300)}")


def _memory() -> int:
    """Half of what is free: the person's own programs need the rest. 0 when unknown."""
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        return int(found[1]) * 1024 // 2 if found else 0
    return 0


@dataclass(frozen=True)
class SaveCheck:
    """`played`: to its end. `stops`: something was found that stops a replay, by a play or by reading."""

    lines: list[str]
    stops: bool
    played: bool = False


def report_without_play(read: Preflight, shown: str, why: str = "") -> SaveCheck:
    """`shown`: the notebook as it was named. `why` it was not played, "" where that was not wanted."""
    not_run = f"Not played after saving: {why.rstrip('.')}." if why else "Not run after saving."
    check = f"{not_run} To play it once in a copy{', unconfined' if why else ''}: {_check(shown)}"
    return SaveCheck([*read.lines(), check], stops=bool(read.stops))


def play_and_report(
    play: ConfinedPlay, read: Preflight, shown: str, clean: Callable[[str], str], on_cell: OnCell
) -> SaveCheck:
    """`clean` takes out of a text what a save takes out. Ctrl-C ends the play; the saved file stays."""
    try:
        played = play.run(on_cell)
    except Interrupted:
        raise
    except KeyboardInterrupt:
        return report_without_play(read, shown, "you interrupted it")
    except (ReplayError, OSError) as wrong:
        return report_without_play(read, shown, clean(str(wrong)))
    lacks, shown_play = "", played
    if played.failure:
        lacks = confinement_cause(
            played.failure, play.removed_variables, lambda name: file_exists(play.path, name), clean
        )
        shown_play = replace(
            played, failure=played.failure.cleaned(clean)
        )  # before it is cut: half a secret would not match
    own = played.failure is not None and not lacks
    line = clean(describe_play(shown_play, play.seconds, lacks))
    if played.is_complete:
        return SaveCheck([line, *read.notes], stops=False, played=True)
    left = read.lines(beyond=_last_known(played, own=own))
    return SaveCheck([f"{line} To play it whole: {_check(shown)}", *left], stops=own or bool(read.stops))


def file_exists(path: Path, name: str) -> bool:
    """Whether the file `name` is there for a cell of the notebook at `path`."""
    try:
        return (path.parent / name).exists()
    except (OSError, ValueError):
        return False


def _last_known(played: PlayResult, *, own: bool) -> int:
    return played.at if own else max(0, played.at - 1)


def _check(shown: str) -> str:
    return f"kin-nb save {shlex.quote(shown)} --check"
