"""`kin-nb replay --live`: the model is asked again, and what it does now is a session notebook of its own."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kin_nb.replay.book import Book
from kin_nb.replay.cells.bound import drop_bound_cells
from kin_nb.replay.diffing.runs import compare_runs
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.embedded import is_embedding
from kin_nb.replay.recording import Recording, WorkspaceMeta
from kin_nb.replay.runner.comparing import compare_cells
from kin_nb.replay.runner.execution import OnProgress, run_cells
from kin_nb.replay.runner.options import NAMING, ReplayOptions
from kin_nb.replay.runner.place import place, workspace_of
from kin_nb.replay.runner.report import CellResult, ReplayReport
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.named_recording import join, session_in_log
from kin_nb.replay.saving.privacy import Cleaner, clean_outputs
from kin_nb.replay.saving.writing import write_notebook


def ask_again(
    path: Path,
    stored: Any,
    recording: Recording,
    options: ReplayOptions,
    destination: Path,
    on_progress: OnProgress | None,
    secrets: Callable[[str], str],
) -> ReplayReport:
    """Run the cells of `stored`, the notebook at `path` (resolved), live, with the settings of whoever runs it.

    Calls that ask are refused, since nobody is there; `approve_recorded` allows those that were allowed when recorded,
    with the same arguments. Raises as runner.replay_notebook, and when `destination` exists: what it holds was paid for.
    """
    if destination.exists():
        raise ReplayError(f"{destination} exists, and another live run does not replace it. Name another --output-dir.")
    executed = copy.deepcopy(stored)
    _make_live(executed)
    asked = copy.deepcopy(executed)
    with place(path, recording, options) as there:
        stopped_at, error = run_cells(executed, there, options, on_progress)
    try:
        now = _with_workspace(_recorded_now(executed, destination), path, recording, options, destination)
    except ReplayError as wrong:  # nothing was asked, or what was is of several sessions
        now, error = None, error or str(wrong)
    made = executed if now is None else session_notebook(now, source_nb=executed)
    clean_outputs(made, Cleaner((), secrets))
    write_notebook(made, destination, open_file=path)
    return ReplayReport(
        mode="live",
        executed=destination,
        cells=tuple(map(_ran, compare_cells(asked, executed, stopped_at, tools=True))),
        turns=(),
        calls=(),
        workspace=there.copy.says if there.copy else "",
        error=error,
        live=compare_runs(recording, now) if now is not None else None,
        fail_on=options.fail_on,
        approve_recorded=options.approve_recorded,
    )


def _make_live(nb: Any) -> None:
    """Without the recording, and without what plays it."""
    drop_bound_cells(nb)
    nb["metadata"].pop("kin", None)
    nb["cells"] = [cell for cell in nb["cells"] if not is_embedding(cell)]
    for cell in nb["cells"]:
        cell["metadata"].pop("kin", None)
        if cell["cell_type"] == "code":
            lines = cell["source"].split("\n")
            cell["source"] = "\n".join(line for line in lines if not line.lstrip().startswith((NAMING, "%kin live")))
    load = next((cell for cell in nb["cells"] if cell["cell_type"] == "code"), None)
    if load is not None and not load["source"].strip():
        load["source"] = "%load_ext kin_nb"


def _recorded_now(executed: Any, destination: Path) -> Recording:
    """Of the log, which has all of it; the outputs carry no record that is very large."""
    found = Book.collect(executed).recording
    with suppress(ReplayError):
        logged = session_in_log(found.session, destination.parent)
        return replace(found, records=join(found.records, logged.recording.records, logged.taken_over))
    return found


def _with_workspace(
    now: Recording, path: Path, recording: Recording, options: ReplayOptions, destination: Path
) -> Recording:
    """The copy is gone: what it was made from is the workspace that the new notebook names."""
    workspace = workspace_of(path, recording, options.workspace)
    where = Path(os.path.relpath(workspace, destination.parent)).as_posix()
    found = WorkspaceMeta(path=where, commit=recording.meta.workspace.commit)
    return replace(now, meta=now.meta.model_copy(update={"workspace": found}))


def _ran(cell: CellResult) -> CellResult:
    """What ordinary cells show depends on what the model does: turns are compared, not they."""
    return replace(cell, status="not compared", detail="") if cell.status in {"same", "differs"} else cell
