"""One notebook in a process of its own, for pool.py and confined.py.

    python -m kin_nb.replay.runner.worker                           < REQUEST
    python -m kin_nb.replay.runner.worker confined NOTEBOOK BYTES CELL

The first prints the notebook's row, as JSON. The second plays the notebook: each cell that begins, and the end, is a line of JSON
on stdout. BYTES: the most memory of each process. CELL: the first, from 1, whose text is not shown, 0 for none.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.format.taken_out import NOTHING_HIDDEN, HiddenText
from kin_nb.replay.runner.execution import CellProgress, OnProgress, failure_of, run_cells
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.place import Place
from kin_nb.replay.runner.results import Row, as_json, from_json
from kin_nb.replay.runner.run_notebook import replay_notebook
from kin_nb.replay.saving.privacy import known_secrets

_LONGEST = 50_000
"""Characters of an error's text, and of a traceback's end."""


@dataclass(frozen=True)
class Request:
    """`folder`: where the process runs, so that names mean there what they mean here."""

    notebook: str
    options: ReplayOptions
    folder: str


def row_of(notebook: str, options: ReplayOptions, on_progress: OnProgress | None = None) -> Row:
    """Whatever is wrong with the notebook is in the row, without secrets."""
    path, secrets = Path(notebook), known_secrets()
    try:
        return Row.of(notebook, replay_notebook(path, options, on_progress, secrets))
    except ReplayError as error:
        return Row.failed(notebook, secrets(str(error).removeprefix(f"{path.name}: ")))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return Row.failed(notebook, f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001  (one notebook is never the end of the others)
        return Row.failed(notebook, one_line(secrets(f"{type(error).__name__}: {error}"), 300))


def replay_request() -> None:
    """Answer the request on stdin with its row on stdout."""
    with _own_stdout() as stdout:
        request = from_json(Request, sys.stdin.buffer.read())
        os.chdir(request.folder)
        threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
        stdout.write(as_json(row_of(request.notebook, request.options)))


def _end_with(parent: int) -> None:
    """No kernel goes on for a runner, or a worker of a cluster, that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def play_confined(path: Path, memory: int, hidden: HiddenText) -> None:
    """Play the notebook at `path`, and print each cell that begins and the end."""
    with _own_stdout() as stdout:
        _limit_memory(memory)
        nb = as_node(load_notebook(path), path.name)

        def tell(progress: CellProgress) -> None:
            if progress.output is None:
                _print_line(stdout, cell=progress.cell)

        there = Place(path.parent, dict(os.environ))
        at, error = run_cells(nb, there, ReplayOptions(), tell, hidden)
        if at is None:
            _print_line(stdout, ended=True)
        else:
            found = failure_of(nb, at, error, hidden)
            text, traceback = found.text[:_LONGEST], found.traceback[-_LONGEST:]
            _print_line(stdout, ended=True, cell=at + 1, name=found.name, text=text, traceback=traceback)


@contextmanager
def _own_stdout() -> Iterator[TextIO]:
    """This process's stdout. What the kernel or a library prints meanwhile, and afterwards, goes to stderr."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(own, "w", encoding="ascii") as stdout:
        yield stdout


def _print_line(stdout: TextIO, **line: Any) -> None:
    stdout.write(json.dumps(line) + "\n")
    stdout.flush()


def _limit_memory(most: int) -> None:
    """Where memory runs out all the same, the system ends these processes before the person's own."""
    import resource  # noqa: PLC0415  (not on Windows)

    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main(arguments: list[str]) -> None:
    if not arguments:
        replay_request()
        return
    _, notebook, memory, first = arguments
    hidden = HiddenText(int(first) - 1) if int(first) else NOTHING_HIDDEN
    play_confined(Path(notebook), int(memory), hidden)


if __name__ == "__main__":
    main(sys.argv[1:])
