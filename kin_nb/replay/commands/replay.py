"""`kin-nb replay`: what it prints, and its exit code."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kin_nb.replay.commands.steps import Steps, say
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.rules_file import load_rules
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.rows import Row, rows_json, table, worst
from kin_nb.replay.runner.selection import output_folders, selected
from kin_nb.replay.runner.worker import Request, row_of
from kin_nb.replay.saving.privacy import known_secrets

FAILED = 1
_GOING = {
    "playback": "playback",
    "tools": "tools run again in a copy of the workspace",
    "live": "the model is asked again, in a copy of the workspace",
}


@dataclass(frozen=True)
class How:
    """`jobs`: notebooks at a time, each in a process of its own; None: one after the other, in this one.

    `timeout`: seconds for each notebook. `dask`: the address of a cluster's scheduler, "" for none.
    """

    report: Literal["text", "json", "junit"] = "text"
    jobs: int | None = None
    timeout: int | None = None
    dask: str = ""


def replay(names: Sequence[str], options: ReplayOptions, how: How) -> int:
    """Re-execute the notebooks that `names` are or match, and report; of many the worst exit code, an error above drift."""
    try:
        load_rules(options.rules)
        paths, ordinary = selected(names)
        if ordinary:
            print(f"Left out, with no session in them: {', '.join(map(str, ordinary))}", file=sys.stderr)  # noqa: T201
        with _output(options.output_dir) as out:
            folders = output_folders(paths, out)
            jobs = [(path, replace(options, output_dir=folder)) for path, folder in zip(paths, folders, strict=True)]
            apart = how.report != "text" or how.jobs or how.timeout or how.dask
            rows = _apart(jobs, how) if apart else [_here(path, each) for path, each in jobs]
            _print(rows, how, out, told=not apart)
    except (ReplayError, OSError) as error:
        print(str(error), file=sys.stderr)  # noqa: T201
        return FAILED
    return worst(rows)


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


def _here(path: Path, options: ReplayOptions) -> Row:
    say(f"{path}: {_GOING[options.way]}")
    row = row_of(str(path), options, Steps(live=options.live, secrets=known_secrets()))
    if row.report is None:
        _complain(path, row)
    else:
        say(row.report.text())
    return row


def _apart(jobs: Sequence[tuple[Path, ReplayOptions]], how: How) -> list[Row]:
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
    told = Counting(len(requests))
    try:
        if how.dask:
            from kin_nb.replay.runner.on_dask import replay_on_dask  # noqa: PLC0415  (--dask only)

            return replay_on_dask(how.dask, requests, how.timeout, told)
        from kin_nb.replay.runner.many import replay_many  # noqa: PLC0415  (not for a single notebook)

        return replay_many(requests, how.jobs or 1, how.timeout, told)
    finally:
        told.end()


class Counting:
    """How far many notebooks are, on stderr: one line that changes on a terminal, else a line for each."""

    def __init__(self, count: int) -> None:
        self._count, self._done, self._codes = count, 0, {0: 0, 3: 0, 1: 0}
        self._terminal = sys.stderr.isatty()

    def __call__(self, row: Row) -> None:
        self._done += 1
        self._codes[row.exit_code] += 1
        if self._terminal:
            so_far = f"{self._done} of {self._count} notebooks, {self._codes[3]} drifted, {self._codes[1]} failed"
            sys.stderr.write(f"\r{so_far}")
        else:
            sys.stderr.write(f"{self._done}/{self._count} {row.notebook}: exit code {row.exit_code}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._terminal and self._done:
            sys.stderr.write("\n")


def _print(rows: Sequence[Row], how: How, out: Path, *, told: bool) -> None:
    """`told`: each notebook's own report was printed as it came."""
    if how.report == "json":
        say(rows_json(rows))
    elif how.report == "junit":
        from kin_nb.replay.runner.junit import junit_xml  # noqa: PLC0415  (--report junit only)

        say(junit_xml(rows))
    else:
        for row in rows if not told else ():
            if row.report is not None and (row.exit_code or len(rows) == 1):
                say(f"{row.notebook}: {_GOING[row.report.mode]}\n{row.report.text()}\n")
            elif row.report is None:
                _complain(Path(row.notebook), row)
        if len(rows) > 1:
            say(f"{table(rows)}\nExecuted notebooks: {out}")


def _complain(path: Path, row: Row) -> None:
    said = row.error if row.error.startswith(path.name) else f"{path}: {row.error}"
    print(said, file=sys.stderr)  # noqa: T201
