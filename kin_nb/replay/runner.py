"""`kin-nb replay`: re-execute a session notebook, or a copy of it rather, and report what drifted."""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.replay.bound_cells import is_bound_cell
from kin_nb.replay.comparing import compare_cells
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format import read_recording
from kin_nb.replay.kernel_client import execute
from kin_nb.replay.loading import as_node, load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.report import ReplayReport, call_results, turn_results, undo_results
from kin_nb.replay.saving import write_notebook
from kin_nb.replay.workspace_copy import WorkspaceCopy, copy_workspace

RECORDED_ENVIRONMENT: Mapping[str, str] = {
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "CI": "1",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00+00:00",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00+00:00",
}
"""What tools see when they run again, so that what they print depends on the workspace alone."""

_NOT_INHERITED = ("KIN_REPLAY", "KIN_REPLAY_APPROVE", "KIN_REPLAY_WORKSPACE", "PYTEST_CURRENT_TEST", "KIN_APPROVAL")


@dataclass(frozen=True)
class ReplayOptions:
    """`tools`: run the tools again; else playback. `timeout`: seconds per cell. `workspace`: where it is now.

    `approve_recorded`: calls whose recorded decision was yes run again without asking (`--approve recorded`).
    """

    tools: bool = False
    approve_recorded: bool = False
    output_dir: Path | None = None
    workspace: Path | None = None
    timeout: int = 600


@dataclass(frozen=True)
class Progress:
    """What is going on: cell `cell` of `cells` (from 1) began, or, with `output`, showed this nbformat output."""

    cell: int
    cells: int
    output: Any = None


def replay_notebook(
    path: Path, options: ReplayOptions | None = None, on_progress: Callable[[Progress], None] | None = None
) -> ReplayReport:
    """Execute a copy of the notebook at `path` in a fresh kernel; `path` itself is only read.

    Raises RecordingError when the recording is damaged and ReplayError when the run cannot begin (no workspace, the
    output would land on the input); what fails once it runs is in the report.
    """
    options = options or ReplayOptions()
    path = path.resolve()
    stored = as_node(load_notebook(path), path.name)
    recording = read_recording(stored)
    executed = copy.deepcopy(stored)
    with _place(path, recording, options) as (cwd, env, workspace):
        destination = _destination(path, options)
        stopped_at, error = _execute(executed, cwd, env, options, on_progress)
    write_notebook(executed, destination, open_file=path)
    calls = call_results(executed, recording, tools=options.tools)
    return ReplayReport(
        mode="tools" if options.tools else "playback",
        executed=destination,
        cells=compare_cells(stored, executed, stopped_at, tools=options.tools),
        turns=turn_results(recording, calls),
        calls=calls,
        workspace=workspace.says if workspace else "",
        error=error,
        undos=undo_results(executed, recording) if options.tools else (),
    )


def _execute(
    nb: Any,
    cwd: Path,
    env: Mapping[str, str],
    options: ReplayOptions,
    on_progress: Callable[[Progress], None] | None,
) -> tuple[int | None, str]:
    """Run `nb` in place; the index of the cell that stopped it and why, (None, "") when none did.

    With tools the agent's own calls bind its variables, so the cells that do so in playback are left out.
    """
    from nbclient.exceptions import (  # noqa: PLC0415  (first use)
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    tell = on_progress or (lambda _: None)
    count = len(nb["cells"])
    current = 0

    def on_cell(index: int) -> None:
        nonlocal current
        current = index
        tell(Progress(index + 1, count))

    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    try:
        execute(
            nb,
            cwd=cwd,
            env=env,
            timeout=options.timeout,
            skips=lambda cell: options.tools and is_bound_cell(nb, cell),
            on_cell=on_cell,
            on_output=lambda index, output: tell(Progress(index + 1, count, output)),
        )
    except CellExecutionError as error:
        return current, f"cell {current + 1}: {error.ename}: {error.evalue}"
    except CellTimeoutError:
        return current, f"cell {current + 1} ran longer than {options.timeout} s"
    except DeadKernelError:
        return current, f"cell {current + 1}: the kernel died"
    return None, ""


@contextmanager
def _place(
    path: Path, recording: Recording, options: ReplayOptions
) -> Iterator[tuple[Path, dict[str, str], WorkspaceCopy | None]]:
    """The kernel's working directory, environment and, with tools, its copy of the workspace, gone afterwards."""
    env = _environment(path)
    if not options.tools:
        yield path.parent, env, None
        return
    workspace = _workspace(path, recording, options)
    with tempfile.TemporaryDirectory(prefix="kin-replay-", ignore_cleanup_errors=True) as temporary:
        root = Path(temporary).resolve()
        top = root / "workspace"
        below = workspace.is_relative_to(path.parent)  # then cells find it where it was
        folder = top / workspace.relative_to(path.parent) if below else top
        copied = copy_workspace(workspace, recording.meta.workspace.commit, folder)
        env |= RECORDED_ENVIRONMENT
        env |= {"KIN_REPLAY": "tools", "KIN_REPLAY_WORKSPACE": str(copied.folder), "KIN_HOME": str(root / "home")}
        if options.approve_recorded:
            env["KIN_REPLAY_APPROVE"] = "recorded"
        yield _beside(path, workspace, top), env, copied


def _environment(path: Path) -> dict[str, str]:
    """This process's environment, in which the kernel finds the input as its own file, and this interpreter first."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    env |= {"KIN_RECORDING": str(path), "JPY_SESSION_NAME": str(path)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *filter(None, [env.get("PATH")])])
    if env.get("PYTHONPATH"):  # the kernel starts elsewhere
        env["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in env["PYTHONPATH"].split(os.pathsep))
    return env


def _workspace(path: Path, recording: Recording, options: ReplayOptions) -> Path:
    if options.workspace is not None:
        return options.workspace.resolve()
    recorded = recording.meta.workspace.path
    if not recorded or Path(recorded).is_absolute():
        raise ReplayError(
            "The recording does not say where its workspace is. Say it: kin-nb replay --tools --workspace PATH"
        )
    return (path.parent / recorded).resolve()


def _beside(path: Path, workspace: Path, folder: Path) -> Path:
    """Where in the copy, `folder`, the notebook's own folder is; `folder` itself when it is not in there."""
    if path.parent.is_relative_to(workspace):
        inside = folder / path.parent.relative_to(workspace)
        if inside.is_dir():
            return inside
    return folder


def _destination(path: Path, options: ReplayOptions) -> Path:
    """Where the executed notebook goes: `output_dir`, made if need be, or a new temporary folder that stays."""
    if options.output_dir is None:
        return Path(tempfile.mkdtemp(prefix="kin-replay-")) / path.name
    options.output_dir.mkdir(parents=True, exist_ok=True)
    destination = options.output_dir.resolve() / path.name
    if destination == path:
        raise ReplayError(f"The executed notebook would overwrite {path.name}. Name another folder: --output-dir PATH")
    return destination
