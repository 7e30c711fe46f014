"""`kin-nb replay` and `kin-nb demo`: what they print while a notebook runs and afterwards, and their exit codes."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kin_nb.core.text import first_line, shorten
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.playback.locate import examples_folder, is_shipped
from kin_nb.replay.rerun.rules import load_rules
from kin_nb.replay.runner.execution import CellProgress
from kin_nb.replay.runner.options import ReplayOptions, output_folders, select_notebooks
from kin_nb.replay.runner.pool import replay_many, replay_on_dask
from kin_nb.replay.runner.results import (
    ReplayReport,
    ReplayResult,
    junit_xml,
    results_json,
    results_table,
    worst_exit_code,
)
from kin_nb.replay.runner.run_notebook import Request, notebook_result, replay_notebook
from kin_nb.replay.saving.privacy import known_secrets

FAILED = 1
_WIDTH = 100
"""Characters of a line for a cell or a call."""
QUICKSTART = "quickstart"
PACKAGES = {"data-analysis": ("pandas", "matplotlib")}
"""What the cells of an example import, and kin_nb does not install."""
_GOING = {
    "playback": "playback",
    "tools": "tools run again in a copy of the workspace",
    "live": "the model is asked again, in a copy of the workspace",
}


@dataclass(frozen=True)
class BatchOptions:
    """`jobs`: notebooks at a time, each in a process of its own; None: one after the other, in this one.

    `timeout`: seconds for each notebook. `dask`: the address of a cluster's scheduler, "" for none.
    """

    report: Literal["text", "json", "junit"] = "text"
    jobs: int | None = None
    timeout: int | None = None
    dask: str = ""


def replay(names: Sequence[str], options: ReplayOptions, how: BatchOptions) -> int:
    """Re-execute the notebooks that `names` are or match, and report; of many the worst exit code, an error above drift."""
    try:
        load_rules(options.rules)
        paths, ordinary = select_notebooks(names)
        if ordinary:
            print(f"Skipped, because they are not session notebooks: {', '.join(map(str, ordinary))}", file=sys.stderr)  # noqa: T201
        with _output(options.output_dir) as out:
            folders = output_folders(paths, out)
            jobs = [(path, replace(options, output_dir=folder)) for path, folder in zip(paths, folders, strict=True)]
            apart = how.report != "text" or how.jobs or how.timeout or how.dask
            rows = _apart(jobs, how) if apart else [_here(path, each) for path, each in jobs]
            _print(rows, how, out, reported=not apart)
    except (ReplayError, OSError) as error:
        print(str(error), file=sys.stderr)  # noqa: T201
        return FAILED
    return worst_exit_code(rows)


@contextmanager
def _output(folder: Path | None) -> Iterator[Path]:
    """`folder`, or a new one that stays; of a run that was interrupted it is named, or gone where it holds nothing."""
    out = folder or Path(tempfile.mkdtemp(prefix="kin-replay-"))
    try:
        yield out
    except BaseException:
        if folder is None:
            try:
                out.rmdir()
            except OSError:
                print(f"Executed notebooks: {out}", file=sys.stderr)  # noqa: T201
        raise


def _here(path: Path, options: ReplayOptions) -> ReplayResult:
    say(f"{path}: {_GOING[options.mode]}")
    row = notebook_result(str(path), options, StepPrinter(live=options.live, secrets=known_secrets()))
    if row.report is None:
        _complain(path, row)
    else:
        say(row.report.text())
    return row


def _apart(jobs: Sequence[tuple[Path, ReplayOptions]], how: BatchOptions) -> list[ReplayResult]:
    """Each in a process of its own. Then a cell may take as long as its notebook may."""
    here = str(Path.cwd())
    requests = []
    for path, options in jobs:
        folder = options.output_dir and options.output_dir.absolute()
        workspace = options.workspace and options.workspace.absolute()
        cell = how.timeout or options.timeout
        rules = tuple(file.absolute() for file in options.rules)
        each = replace(options, output_dir=folder, workspace=workspace, timeout=cell, rules=rules)
        requests.append(Request(str(path), each, here))
    progress = ProgressCounter(len(requests))
    try:
        if how.dask:
            return replay_on_dask(how.dask, requests, how.timeout, progress)
        return replay_many(requests, how.jobs or 1, how.timeout, progress)
    finally:
        progress.end()


class ProgressCounter:
    """How far many notebooks are, on stderr: one line that changes on a terminal, else a line for each."""

    def __init__(self, count: int) -> None:
        self._count, self._done, self._codes = count, 0, {0: 0, 3: 0, 1: 0}
        self._terminal = sys.stderr.isatty()

    def __call__(self, row: ReplayResult) -> None:
        self._done += 1
        self._codes[row.exit_code] += 1
        if self._terminal:
            so_far = f"{self._done} of {self._count} notebooks, {self._codes[3]} differ, {self._codes[1]} failed"
            sys.stderr.write(f"\r{so_far}")
        else:
            sys.stderr.write(f"{self._done}/{self._count} {row.notebook}: exit code {row.exit_code}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._terminal and self._done:
            sys.stderr.write("\n")


def _print(rows: Sequence[ReplayResult], how: BatchOptions, out: Path, *, reported: bool) -> None:
    """`reported`: each notebook's report was already printed when it arrived."""
    if how.report == "json":
        say(results_json(rows))
    elif how.report == "junit":
        say(junit_xml(rows))
    else:
        for row in rows if not reported else ():
            if row.report is not None and (row.exit_code or len(rows) == 1):
                say(f"{row.notebook}: {_GOING[row.report.mode]}\n{row.report.text()}\n")
            elif row.report is None:
                _complain(Path(row.notebook), row)
        if len(rows) > 1:
            say(f"{results_table(rows)}\nExecuted notebooks: {out}")


def _complain(path: Path, row: ReplayResult) -> None:
    said = row.error if row.error.startswith(path.name) else f"{path}: {row.error}"
    print(said, file=sys.stderr)  # noqa: T201


def examples() -> list[str]:
    """The names of the sessions that come with kin_nb, the quickstart first."""
    names = sorted(path.stem for path in examples_folder().glob("*.ipynb"))
    return sorted(names, key=lambda name: name != QUICKSTART)


def demo(name: str = QUICKSTART) -> int:
    """Re-execute an example: the model from the recording, the tools for real, in a temporary copy."""
    if (path := _example(name)) is None:
        return FAILED
    say(f"Running the session {name} again: the model's replies come from the recording, the tools really run,")
    say("in a temporary copy of its workspace. No key, no network.\n")
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kin-demo-"))
    try:
        report = replay_notebook(
            path, ReplayOptions(tools=True, approve_recorded=True, output_dir=folder), StepPrinter()
        )
    except (ReplayError, OSError) as error:
        print(str(error), file=sys.stderr)  # noqa: T201
        return FAILED
    say(f"\n{report.text()}")
    say(f"Took {time.monotonic() - started:.1f} s. {_open_with(report)}")
    return report.exit_code


def demo_in_lab(name: str = QUICKSTART) -> int:
    """Open a copy of an example in JupyterLab, or say how to install it."""
    import os  # noqa: PLC0415
    import shutil  # noqa: PLC0415

    if (path := _example(name)) is None:
        return FAILED
    if importlib.util.find_spec("jupyterlab") is None:
        say(f"JupyterLab is not installed here.\nInstall it: {sys.executable} -m pip install jupyterlab")
        return FAILED
    folder = Path(tempfile.mkdtemp(prefix="kin-demo-"))
    shutil.copytree(examples_folder() / "workspaces" / name, folder / "workspaces" / name)
    shutil.copy(path, folder)
    argv = [sys.executable, "-m", "jupyterlab", str(folder / path.name)]
    return os.execv(argv[0], argv)  # noqa: S606  (in this process's place: who ends it ends JupyterLab)


def _example(name: str) -> Path | None:
    """The example's notebook. None, with a message, for an unknown name, missing packages and a changed notebook."""
    if name not in examples():
        print(f'Unknown example "{name}". Examples: {", ".join(examples())}.', file=sys.stderr)  # noqa: T201
        return None
    path = examples_folder() / f"{name}.ipynb"
    if not is_shipped(path):
        # Only what came with this version may run commands without asking.
        print(f"{path} is not the example that came with this version of kin_nb.", file=sys.stderr)  # noqa: T201
        return None
    packages = PACKAGES.get(name, ())
    if missing := [package for package in packages if importlib.util.find_spec(package) is None]:
        print(  # noqa: T201
            f"The example {name} needs {' and '.join(packages)}; not installed here: {', '.join(missing)}.\n"
            f"Install: {sys.executable} -m pip install {' '.join(missing)}",
            file=sys.stderr,
        )
        return None
    return path


def _open_with(report: ReplayReport) -> str:
    return f"Open it with: jupyter lab {report.executed}"


def say(text: str = "") -> None:
    print(text, flush=True)  # noqa: T201  (a command's output)


class StepPrinter:
    """A line per cell that asks and per tool call, as they happen; unless `live`, with how it compares."""

    def __init__(self, *, live: bool = False, secrets: Callable[[str], str] = str) -> None:
        self._live, self._secrets = live, secrets

    def __call__(self, progress: CellProgress) -> None:
        kin = (progress.output or {}).get("metadata", {}).get("kin", {})
        match kin.get("kind"):
            case "call" if kin.get("status") not in {"pending", "waiting"}:
                drift = "" if self._live else f"  [{kin.get('drift', {}).get('kind', 'played')}]"
                say(f"  turn {kin.get('turn')}, step {kin.get('step')}: {self._first_line(progress.output)}{drift}")
            case "receipt":
                say(f"  turn {kin.get('turn')}: {self._first_line(progress.output)}")

    def _first_line(self, output: Any) -> str:
        text = output["data"].get("text/plain", "")
        return shorten(self._secrets(first_line("".join(text) if isinstance(text, list) else text)), _WIDTH)
