"""`kin-nb replay`: re-execute a session notebook, or a copy of it rather, and report what drifted."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

from kin_nb.core.paths import real_path
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.runner.comparing import compare_cells
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.parameters import inject
from kin_nb.replay.runner.place import place
from kin_nb.replay.runner.report import ReplayReport, call_results, not_applied, turn_results, undo_results
from kin_nb.replay.runner.running import OnProgress, run_cells
from kin_nb.replay.saving.writing import write_notebook


def replay_notebook(
    path: Path, options: ReplayOptions | None = None, on_progress: OnProgress | None = None
) -> ReplayReport:
    """Execute a copy of the notebook at `path` in a fresh kernel; `path` itself is only read.

    Raises RecordingError when the recording is damaged and ReplayError when the run cannot begin (no workspace, the
    output would land on the input); what fails once it runs is in the report.
    """
    options = options or ReplayOptions()
    path = path.resolve()
    stored = as_node(load_notebook(path), path.name)
    recording = read_recording(stored)
    inject(stored, options.parameters)
    if options.live:
        from kin_nb.replay.runner.asking_again import ask_again  # noqa: PLC0415  (--live only)

        return ask_again(path, stored, recording, options, destination_of(path, options), on_progress)
    executed = copy.deepcopy(stored)
    with place(path, recording, options) as there:
        destination = destination_of(path, options)
        stopped_at, error = run_cells(executed, there, options, on_progress)
    write_notebook(executed, destination, open_file=path)
    calls = call_results(executed, recording, tools=options.tools)
    return ReplayReport(
        mode=options.way,
        executed=destination,
        cells=compare_cells(stored, executed, stopped_at, tools=options.tools),
        turns=turn_results(recording, calls),
        calls=calls,
        workspace=there.copy.says if there.copy else "",
        error=error,
        undos=undo_results(executed, recording) if options.tools else (),
        not_applied=not_applied(executed),
        fail_on=options.fail_on,
        approve_recorded=options.approve_recorded,
    )


def destination_of(path: Path, options: ReplayOptions) -> Path:
    """Where the executed notebook goes: `output_dir`, made if need be, or a new temporary folder that stays."""
    if options.output_dir is None:
        return Path(tempfile.mkdtemp(prefix="kin-replay-")) / path.name
    options.output_dir.mkdir(parents=True, exist_ok=True)
    destination = options.output_dir.resolve() / path.name
    if real_path(destination) == path:
        raise ReplayError(f"The executed notebook would overwrite {path.name}. Name another folder: --output-dir PATH")
    return destination
