"""`kin-nb replay`: re-execute a session notebook, or rather a copy of it, and report what drifted; `--live` asks the model.

As a program, for pool.py and confined.py, it runs one notebook in a process of its own:

    python -m kin_nb.replay.runner.run_notebook                           < REQUEST
    python -m kin_nb.replay.runner.run_notebook confined NOTEBOOK BYTES CELL

The first prints the notebook's row, as JSON. The second plays the notebook: each cell that begins, and the end, is a line of JSON
on stdout. BYTES: the most memory of each process. CELL: the first, from 1, whose text is not shown, 0 for none.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from kin_nb.core.paths import real_path
from kin_nb.render import one_line
from kin_nb.replay.binding_cells import remove_binding_cells
from kin_nb.replay.book import Book
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.format.redacted_text import NOTHING_HIDDEN, HiddenText
from kin_nb.replay.format.storage import is_recording_cell
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.rules import load_rules
from kin_nb.replay.run_diff import compare_runs
from kin_nb.replay.runner.compare_outputs import compare_cells
from kin_nb.replay.runner.confined import PlayResult
from kin_nb.replay.runner.execution import CellProgress, OnProgress, failure_of, run_cells
from kin_nb.replay.runner.options import REPLAY_LINE, ReplayOptions, inject_parameters
from kin_nb.replay.runner.results import (
    CellResult,
    ReplayReport,
    ReplayResult,
    as_json,
    call_results,
    from_json,
    not_applied,
    turn_results,
    undo_results,
)
from kin_nb.replay.runner.run_environment import RunEnvironment, prepare, workspace_of
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_outputs, known_secrets
from kin_nb.replay.saving.sources import combine_records, session_from_log
from kin_nb.replay.saving.writing import write_notebook


def run_live(
    path: Path,
    stored: Any,
    recording: Recording,
    options: ReplayOptions,
    destination: Path,
    on_progress: OnProgress | None,
    secrets: Callable[[str], str],
) -> ReplayReport:
    """Run the cells of `stored`, the notebook at `path` (resolved), live, with the settings of the user who runs it.

    Calls that ask are refused, since no one can approve them; `approve_recorded` allows those that were allowed when recorded,
    with the same arguments. Raises as runner.replay_notebook, and when `destination` exists: what it holds was paid for.
    """
    if destination.exists():
        raise ReplayError(
            f"{destination} exists, and a live run does not replace files.\nGive another folder: --output-dir PATH"
        )
    executed = copy.deepcopy(stored)
    _make_live(executed)
    asked = copy.deepcopy(executed)
    with prepare(path, recording, options) as there:
        stopped_at, error = run_cells(executed, there, options, on_progress)
    try:
        now = _with_workspace(_recorded_now(executed, destination), path, recording, options, destination)
    except ReplayError as wrong:  # nothing was asked, or what was is of several sessions
        now, error = None, error or str(wrong)
    made = executed if now is None else session_notebook(now, source_nb=executed)
    clean_outputs(made, NotebookRedactor((), secrets))
    write_notebook(made, destination, open_file=path)
    return ReplayReport(
        mode="live",
        executed=destination,
        cells=tuple(map(_ran, compare_cells(asked, executed, stopped_at, tools=True))),
        turns=(),
        calls=(),
        workspace=there.copy.description if there.copy else "",
        error=error,
        live=compare_runs(recording, now) if now is not None else None,
        fail_on=options.fail_on,
        approve_recorded=options.approve_recorded,
    )


def _make_live(nb: Any) -> None:
    """Without the recording, and without what plays it."""
    remove_binding_cells(nb)
    nb["metadata"].pop("kin", None)
    nb["cells"] = [cell for cell in nb["cells"] if not is_recording_cell(cell)]
    for cell in nb["cells"]:
        cell["metadata"].pop("kin", None)
        if cell["cell_type"] == "code":
            lines = cell["source"].split("\n")
            cell["source"] = "\n".join(
                line for line in lines if not line.lstrip().startswith((REPLAY_LINE, "%kin live"))
            )
    load = next((cell for cell in nb["cells"] if cell["cell_type"] == "code"), None)
    if load is not None and not load["source"].strip():
        load["source"] = "%load_ext kin_nb"


def _recorded_now(executed: Any, destination: Path) -> Recording:
    """Of the log, which has all of it; the outputs carry no record that is very large."""
    found = Book.collect(executed).recording
    with suppress(ReplayError):
        logged = session_from_log(found.session, destination.parent)
        return replace(found, records=combine_records(found.records, logged.recording.records))
    return found


def _with_workspace(
    now: Recording, path: Path, recording: Recording, options: ReplayOptions, destination: Path
) -> Recording:
    """The copy is gone: what it was made from is the workspace that the new notebook names."""
    workspace = workspace_of(path, recording, options.workspace)
    where = Path(os.path.relpath(workspace, destination.parent)).as_posix()
    found = recording.meta.workspace.model_copy(update={"path": where})
    return replace(now, meta=now.meta.model_copy(update={"workspace": found}))


def _ran(cell: CellResult) -> CellResult:
    """What ordinary cells show depends on what the model does: turns are compared, not they."""
    return replace(cell, status="not compared", detail="") if cell.status in {"same", "differs"} else cell


def replay_notebook(
    path: Path,
    options: ReplayOptions | None = None,
    on_progress: OnProgress | None = None,
    secrets: Callable[[str], str] | None = None,
) -> ReplayReport:
    """Execute a copy of the notebook at `path` in a fresh kernel; `path` itself is only read.

    `secrets` takes what a save takes out of a text, those that are known here by default: outputs are compared without it, and
    neither the report nor the executed notebook has it. From the first cell on of which a save took something out neither
    has any text of the run (docs/reference/redaction.md). Raises RecordingError when the recording is damaged and ReplayError
    when the run cannot begin (no workspace, the output would land on the input); what fails once it runs is in the report.
    """
    options, secrets = options or ReplayOptions(), secrets or known_secrets()
    path = path.resolve()
    stored = as_node(load_notebook(path), path.name)
    recording = read_recording(stored)
    inject_parameters(stored, options.parameters)
    hidden = HiddenText.of(stored)
    if not options.live:
        try:
            return _replay(path, stored, recording, options, on_progress, secrets, hidden).cleaned(secrets)
        except (ReplayError, OSError):
            raise
        except Exception as error:
            if not hidden:
                raise
            raise ReplayError(f"{type(error).__name__}, {hidden.reason}") from None
    if hidden:  # the new notebook would record the texts sent to the model and its answers
        raise ReplayError(
            "Nothing was run: --live records everything again, and this notebook was saved with redactions "
            f"(cell {hidden.number}).\n"
            "Use --tools, or ask the model in a new notebook."
        )

    report = run_live(path, stored, recording, options, destination_of(path, options), on_progress, secrets)
    return report.cleaned(secrets)


def _replay(
    path: Path,
    stored: Any,
    recording: Recording,
    options: ReplayOptions,
    on_progress: OnProgress | None,
    secrets: Callable[[str], str],
    hidden: HiddenText,
) -> ReplayReport:
    """Run the cells of `stored`, in playback or with tools, and write what came out."""
    rules, book = load_rules(options.rules), Book.collect(stored)
    due = Recording(recording.meta, book.shown)
    executed = copy.deepcopy(stored)
    clean_outputs(stored, NotebookRedactor((), secrets))
    with prepare(path, recording, options) as there:
        destination = destination_of(path, options)
        stopped_at, error = run_cells(executed, there, options, on_progress, hidden)
    clean_outputs(executed, NotebookRedactor((), secrets))
    homes = {record.id: cell.number - 1 for cell in reversed(book.cells) for record in cell.shown}
    calls = call_results(executed, due, hidden, tools=options.tools, cells=homes)
    report = ReplayReport(
        mode=options.mode,
        executed=destination,
        cells=compare_cells(stored, executed, stopped_at, hidden, tools=options.tools, rules=rules),
        turns=turn_results(due, calls),
        calls=calls,
        workspace=there.copy.description if there.copy else "",
        error=error,
        undos=undo_results(executed, due, hidden) if options.tools else (),
        not_applied=not_applied(executed, hidden),
        fail_on=options.fail_on,
        approve_recorded=options.approve_recorded,
    )
    for index, cell in enumerate(executed["cells"]):
        if cell["cell_type"] == "code" and hidden.covers(index):
            cell["outputs"] = []
    write_notebook(executed, destination, open_file=path)
    return report


def play_notebook(path: Path) -> PlayResult:
    """How a playback of the notebook at `path` ends. Nothing is written.

    Its cells really run, in a copy of the files around it. Raises ReplayError where there can be no copy.
    """
    stored = as_node(load_notebook(path), path.name)
    options = ReplayOptions(in_copy=True)
    recording = read_recording(stored)
    hidden = HiddenText.of(stored)
    with prepare(path, recording, options) as there:
        at, error = run_cells(stored, there, options, None, hidden)
    return PlayResult.of(stored, at, failure_of(stored, at, error, hidden) if at is not None else None)


def destination_of(path: Path, options: ReplayOptions) -> Path:
    """Where the executed notebook goes: `output_dir`, made if need be, or a new temporary folder that stays."""
    if options.output_dir is None:
        return Path(tempfile.mkdtemp(prefix="kin-replay-")) / path.name
    options.output_dir.mkdir(parents=True, exist_ok=True)
    destination = options.output_dir.resolve() / path.name
    if real_path(destination) == path:
        raise ReplayError(f"The executed notebook would overwrite {path.name}.\nGive another folder: --output-dir PATH")
    return destination


_LONGEST = 50_000
"""Characters of an error's text, and of a traceback's end."""


@dataclass(frozen=True)
class Request:
    """`folder`: where the process runs, so that names mean there what they mean here."""

    notebook: str
    options: ReplayOptions
    folder: str


def notebook_result(notebook: str, options: ReplayOptions, on_progress: OnProgress | None = None) -> ReplayResult:
    """Whatever is wrong with the notebook is in the row, without secrets."""
    path, secrets = Path(notebook), known_secrets()
    try:
        return ReplayResult.of(notebook, replay_notebook(path, options, on_progress, secrets))
    except ReplayError as error:
        return ReplayResult.failed(notebook, secrets(str(error).removeprefix(f"{path.name}: ")))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ReplayResult.failed(notebook, f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001  (one notebook is never the end of the others)
        return ReplayResult.failed(notebook, one_line(secrets(f"{type(error).__name__}: {error}"), 300))


def replay_request() -> None:
    """Answer the request on stdin with its row on stdout."""
    with _own_stdout() as stdout:
        request = from_json(Request, sys.stdin.buffer.read())
        os.chdir(request.folder)
        threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
        stdout.write(as_json(notebook_result(request.notebook, request.options)))


def _end_with(parent: int) -> None:
    """End this process when its parent was killed, so that no kernel keeps running."""
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

        there = RunEnvironment(path.parent, dict(os.environ))
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
