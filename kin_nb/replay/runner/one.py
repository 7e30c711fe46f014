"""`kin-nb replay`: re-execute a session notebook, or a copy of it rather, and report what drifted."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kin_nb.core.paths import real_path
from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.runner.comparing import CANNOT_BE_FOUND, compare_cells, hide_taken_out
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.parameters import inject
from kin_nb.replay.runner.place import place
from kin_nb.replay.runner.report import ReplayReport, call_results, not_applied, turn_results, undo_results
from kin_nb.replay.runner.running import OnProgress, run_cells
from kin_nb.replay.saving.privacy import Cleaner, clean_outputs, known_secrets
from kin_nb.replay.saving.writing import write_notebook

_SHORTEST = 3
"""Characters of what was taken out of one output that is looked for in the rest of the report."""


def replay_notebook(
    path: Path,
    options: ReplayOptions | None = None,
    on_progress: OnProgress | None = None,
    secrets: Callable[[str], str] | None = None,
) -> ReplayReport:
    """Execute a copy of the notebook at `path` in a fresh kernel; `path` itself is only read.

    `secrets` takes what a save takes out of a text, those that are known here by default: outputs are compared without it, and
    neither the report nor the executed notebook has it. Nor have they what a save took out of an ordinary cell's output.
    Raises RecordingError when the recording is damaged and ReplayError when the run cannot begin (no workspace, the
    output would land on the input); what fails once it runs is in the report.
    """
    options, secrets = options or ReplayOptions(), secrets or known_secrets()
    path = path.resolve()
    stored = as_node(load_notebook(path), path.name)
    recording = read_recording(stored)
    inject(stored, options.parameters)
    if options.live:
        from kin_nb.replay.runner.asking_again import ask_again  # noqa: PLC0415  (--live only)

        report = ask_again(path, stored, recording, options, destination_of(path, options), on_progress, secrets)
        return report.cleaned(secrets)
    executed = copy.deepcopy(stored)
    clean_outputs(stored, Cleaner((), secrets))
    with place(path, recording, options) as there:
        destination = destination_of(path, options)
        stopped_at, error = run_cells(executed, there, options, on_progress)
    clean_outputs(executed, Cleaner((), secrets))
    cells = compare_cells(stored, executed, stopped_at, tools=options.tools)
    calls = call_results(executed, recording, tools=options.tools)
    undos = undo_results(executed, recording) if options.tools else ()
    missing = not_applied(executed)
    taken_out = hide_taken_out(stored, executed, stopped_at)
    cells, error = taken_out.hidden(cells, executed), taken_out.stopped(error, stopped_at, executed)
    if taken_out.lost and options.tools:  # the agent's calls see what cells above them read
        calls = tuple(replace(each, detail=CANNOT_BE_FOUND if each.detail else "") for each in calls)
        undos = tuple(replace(each, detail=CANNOT_BE_FOUND if each.detail else "") for each in undos)
    cleaner = Cleaner(taken_out.patterns(_SHORTEST), secrets)
    clean_outputs(executed, cleaner)
    write_notebook(executed, destination, open_file=path)
    report = ReplayReport(
        mode=options.way,
        executed=destination,
        cells=cells,
        turns=turn_results(recording, calls),
        calls=calls,
        workspace=there.copy.says if there.copy else "",
        error=error,
        undos=undos,
        not_applied=missing,
        fail_on=options.fail_on,
        approve_recorded=options.approve_recorded,
        lost=taken_out.at + 1 if taken_out.at is not None else 0,
    )
    return report.cleaned(cleaner.plain)


def play_once(path: Path, seconds: int, secrets: Callable[[str], str]) -> str:
    """What stops the notebook at `path` in playback, in a line; "" where nothing does. Nothing is written.

    Its cells really run, in a copy of the files around it, `seconds` in all. Raises ReplayError where there can be no copy.
    """
    stored = as_node(load_notebook(path), path.name)
    options = ReplayOptions(in_copy=True, total=seconds)
    with place(path, read_recording(stored), options) as there:
        _, error = run_cells(stored, there, options, None)
    return one_line(secrets(error), 400)


def destination_of(path: Path, options: ReplayOptions) -> Path:
    """Where the executed notebook goes: `output_dir`, made if need be, or a new temporary folder that stays."""
    if options.output_dir is None:
        return Path(tempfile.mkdtemp(prefix="kin-replay-")) / path.name
    options.output_dir.mkdir(parents=True, exist_ok=True)
    destination = options.output_dir.resolve() / path.name
    if real_path(destination) == path:
        raise ReplayError(f"The executed notebook would overwrite {path.name}. Name another folder: --output-dir PATH")
    return destination
