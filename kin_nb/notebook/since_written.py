"""Which cells ran since the notebook's file was written: a kernel sees that file, never the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.own_file import own_file

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_Stamp = tuple[str, int, int, int]


class SinceWritten:
    """Looks at the file whenever a cell has run. No clock is compared: the file's may be another machine's."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._stamp = self._now()
        self._first = 1
        """The first execution that the file does not hold as it ended. Nobody looked before `%load_ext`."""

    def cell_ran(self, result: Any) -> None:
        """IPython's `post_run_cell`. Code that a cell hands to IPython has no count, and is that cell's."""
        now = self._now()
        if result.execution_count is not None and now != self._stamp:
            self._stamp, self._first = now, result.execution_count

    def sources(self) -> list[str]:
        """What ran since, as it was typed, each text once, without the cell that runs now; empty where no file is known."""
        if self._stamp is None or self._now() != self._stamp:
            return []
        ran: list[str] = self._shell.history_manager.input_hist_raw[self._first : self._shell.execution_count]
        return list(dict.fromkeys(source for source in ran if source.strip()))

    def _now(self) -> _Stamp | None:
        path = own_file(self._shell)
        return _stamp(path) if path is not None else None


def _stamp(path: Path) -> _Stamp | None:
    """Another one once the file was written; None where it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino
