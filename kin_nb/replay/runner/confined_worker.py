"""The inside of a confined play (confined.py): `python -m kin_nb.replay.runner.confined_worker NOTEBOOK BYTES CELL`.

Each cell that begins, and the end, is a line of JSON on stdout. BYTES: the most memory of each process. CELL: the first, from 1,
whose text is not shown, 0 for none.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.format.taken_out import NOTHING_HIDDEN, HiddenText
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.place import Place
from kin_nb.replay.runner.running import Progress, failure_of, run_cells

_LONGEST = 50_000
"""Characters of an error's text, and of a traceback's end."""


def main(path: Path, memory: int, hidden: HiddenText) -> None:
    """What the kernel and its programs print goes to stderr: stdout is for the lines."""
    own = os.dup(1)
    os.dup2(2, 1)
    _limit_memory(memory)
    nb = as_node(load_notebook(path), path.name)
    with os.fdopen(own, "w", encoding="ascii") as stdout:

        def tell(progress: Progress) -> None:
            if progress.output is None:
                _say(stdout, cell=progress.cell)

        there = Place(path.parent, dict(os.environ))
        at, error = run_cells(nb, there, ReplayOptions(), tell, hidden)
        if at is None:
            _say(stdout, ended=True)
        else:
            found = failure_of(nb, at, error, hidden)
            text, traceback = found.text[:_LONGEST], found.traceback[-_LONGEST:]
            _say(stdout, ended=True, cell=at + 1, name=found.name, text=text, traceback=traceback)


def _say(stdout: TextIO, **line: Any) -> None:
    stdout.write(json.dumps(line) + "\n")
    stdout.flush()


def _limit_memory(most: int) -> None:
    """Where memory runs out all the same, the system ends these processes before the person's own."""
    import resource  # noqa: PLC0415  (not on Windows)

    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    first = int(sys.argv[3])
    main(Path(sys.argv[1]), int(sys.argv[2]), HiddenText(first - 1) if first else NOTHING_HIDDEN)
