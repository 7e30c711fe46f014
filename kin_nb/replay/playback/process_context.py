"""Name the notebooks that a kernel may be serving: from its environment variables, its working directory and its parent processes.

Imported with `%load_ext kin_nb`: uses nothing but the standard library."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_MOST_PARENTS = 16


_VARIABLES = ("JPY_SESSION_NAME", "KIN_RECORDING", "PYTEST_CURRENT_TEST")


@dataclass(frozen=True)
class ParentProcess:
    """A parent process: its arguments, and the folder that they are relative to."""

    arguments: tuple[str, ...]
    cwd: Path


@dataclass(frozen=True)
class ProcessContext:
    """`vscode_file` is the namespace's `__vsc_ipynb_file__`; `parents` come nearest first."""

    cwd: Path
    environ: Mapping[str, str]
    parents: tuple[ParentProcess, ...] = ()
    vscode_file: str | None = None
    pause: Callable[[float], None] = time.sleep

    @classmethod
    def current(cls, vscode_file: str | None = None) -> ProcessContext:
        """Return the context of this process. Its parents are known on Linux only."""
        environ = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        return cls(Path.cwd(), environ, tuple(_parents()), vscode_file)

    def own_files(self) -> Iterator[Path]:
        """Return the notebook of this kernel, as its front end or runner names it; only files that exist."""
        return (path for path in self._own_names() if path.is_file())

    def argument_files(self) -> Iterator[Path]:
        """Return the notebooks in the arguments of parent processes, such as a runner."""
        for parent in self.parents:
            for argument in parent.arguments:
                if argument.endswith(".ipynb") and (parent.cwd / argument).is_file():
                    yield parent.cwd / argument

    def near_files(self) -> Iterator[Path]:
        """Return notebooks that may be copies of it: in parents' arguments, the working directory, the folder of a missing file."""
        yield from self.argument_files()
        yield from _notebooks(self.cwd)
        for path in self._own_names():
            if not path.exists():
                yield from _notebooks(path.parent)

    def siblings(self) -> Iterator[Path]:
        """Return the notebooks in the folder of this kernel's notebook, even if that file does not exist."""
        folders = {path.parent: None for path in self._own_names()} or {self.cwd: None}
        for folder in folders:
            yield from _notebooks(folder)

    def _own_names(self) -> Iterator[Path]:
        test = self.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0]
        for name in (self.environ.get("JPY_SESSION_NAME"), self.vscode_file, Path(test).name):
            if name and name.endswith(".ipynb"):
                yield self.cwd / name


def _notebooks(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".ipynb"))  # noqa: PTH208  (names only)
    except OSError:
        return
    yield from (folder / name for name in names if (folder / name).is_file())


def _parents() -> Iterator[ParentProcess]:
    pid = os.getppid()
    for _ in range(_MOST_PARENTS):
        process = Path("/proc") / str(pid)
        try:
            arguments = process.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
            yield ParentProcess(tuple(arguments), process.joinpath("cwd").readlink())
            pid = int(process.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # no /proc, another user's process, or gone meanwhile
            return
        if pid <= 1:
            return
