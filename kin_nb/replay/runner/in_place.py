"""`--in-place`: executed notebooks take their inputs' places, once all of them have passed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kin_nb.core.session.records import sha256
from kin_nb.replay.errors import RecordingError, ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.format.taken_out import HiddenText
from kin_nb.replay.runner.rows import Row
from kin_nb.replay.saving.open_notebooks import open_in
from kin_nb.replay.saving.writing import write_notebook


def contents_of(paths: Sequence[Path]) -> dict[Path, str]:
    """(path -> sha256): what must still be there when they are replaced. Raises ReplayError for one that is open."""
    for path in paths:
        server = open_in(path)
        if server:
            raise ReplayError(
                f"{path} is open in Jupyter at {server}, whose next save would undo this. Close it, or use --output-dir."
            )
    return {path: sha256(path.read_bytes()) for path in paths if path.is_file()}


def refuse_taken_out(paths: Sequence[Path]) -> None:
    """Raise ReplayError for a notebook that a save took something out of: what it shows now may hold that again."""
    for path in paths:
        with suppress(RecordingError):  # a run says what is wrong with it, and writes nothing either
            nb = as_node(load_notebook(path), path.name)
            hidden = HiddenText.of(nb, read_recording(nb))
            if hidden:
                again = f"kin-nb save {shlex.quote(str(path))} --in-place --redact PATTERN"
                raise ReplayError(
                    f"{path} was saved with something taken out (cell {hidden.number}), which --in-place could bring "
                    f"back: nothing was run. Save it again with the same --redact instead: {again}"
                )


def put_in_place(paths: Sequence[Path], rows: Sequence[Row], before: dict[Path, str]) -> None:
    """Raises ReplayError, before any is written, when one was changed or opened meanwhile."""
    for path, now in contents_of(paths).items():
        if before.get(path) != now:
            raise ReplayError(f"{path} was changed while it ran: nothing was written in place. Run it again.")
    for path, row in zip(paths, rows, strict=True):
        if row.report is not None:
            executed = row.report.executed
            write_notebook(as_node(load_notebook(executed), executed.name), path.resolve(), in_place=True)
