"""One notebook in a process of its own: `python -m kin_nb.replay.runner.worker`.

The request on stdin, the row on stdout, as JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.one import replay_notebook
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.rows import Row, as_json, from_json
from kin_nb.replay.runner.running import OnProgress
from kin_nb.replay.saving.privacy import known_secrets


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


def main() -> int:
    """What the notebook's kernel or a library prints goes to stderr: stdout is for the row."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    request = from_json(Request, sys.stdin.buffer.read())
    os.chdir(request.folder)
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    row = row_of(request.notebook, request.options)
    with os.fdopen(own, "w", encoding="ascii") as stdout:
        stdout.write(as_json(row))
    return 0


def _end_with(parent: int) -> None:
    """No kernel goes on for a runner, or a worker of a cluster, that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
