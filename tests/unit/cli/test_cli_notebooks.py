"""`kin-nb save`, `replay` and `demo` as processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kin_nb.replay.commands import replay
from tests.model_server import tool_call
from tests.notebook.people import QUICKSTART, environment
from tests.table import each_row
from tests.unit.cli.conftest import session_ids
from tests.unit.cli.processes import running


@pytest.mark.kernel
def test_a_session_that_was_killed_is_saved_from_its_log_and_replays(server, home, workspace, kin):
    with running(server, home, workspace) as (process, _):
        process.kill()
        process.wait(10)
    (session,) = session_ids(home)
    saved = kin("save", session[:8], "killed.ipynb")
    assert (saved.returncode, saved.stderr) == (0, "")
    assert f"recording {session}@" in saved.stdout
    done = kin("replay", "--tools", "--approve", "recorded", "killed.ipynb")
    assert (done.returncode, done.stderr) == (0, ""), (
        "an interrupted call is not run again, and not reported as a difference"
    )
    assert "turn 1, step 1: [bash] echo $$ > ready; exec sleep 60 · interrupted" in done.stdout


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
)
def test_a_replay_that_is_interrupted_leaves_neither_kernel_nor_command(
    server, home, workspace, kin, tmp_path, number, code
):
    fifo = tmp_path / "fifo"
    waits = f"test -p {fifo} && echo $(ps -o ppid= -p $PPID) $PPID $$ > {fifo} && exec sleep 60; true"
    server.enqueue(calls=[tool_call("bash", command=waits)])
    server.enqueue("Done.")
    assert kin("run", "-p", "Wait.", "--mode", "auto-approve").returncode == 0
    assert kin("save", session_ids(home)[0], "wait.ipynb").returncode == 0
    os.mkfifo(fifo)
    argv = [sys.executable, "-m", "kin_nb.cli", "replay", "--tools", "--approve", "recorded", "wait.ipynb"]
    process = subprocess.Popen(argv, cwd=workspace, env=environment(home), stdout=subprocess.DEVNULL)
    pids = [int(pid) for pid in fifo.read_text().split()]  # opens when bash has come that far
    started = [psutil.Process(pid) for pid in pids]
    try:
        process.send_signal(number)
        assert process.wait(120) == code
        _, left = psutil.wait_procs(started, timeout=60)
        assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        for pid in (process.pid, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)


def test_save_names_a_session_that_is_unknown_or_not_the_only_one(kin, server, home, workspace):
    for _ in range(2):
        server.enqueue("Hello.")
        assert kin("run", "-p", "Hello?").returncode == 0
    folder = home / ".kin-code" / "sessions"
    for name, log in zip(("abc-1", "abc-2"), session_ids(home), strict=True):
        (folder / log).rename(folder / name)
    unknown, several = kin("save", "xyz1", "out.ipynb"), kin("save", "abc-", "out.ipynb")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith(f"No session xyz1 in {folder}. The newest: abc-")
    assert (several.returncode, several.stderr) == (
        1,
        "2 session ids start with abc-: abc-1, abc-2. Give more characters.\n",
    )
    assert not (workspace / "out.ipynb").exists()


def test_save_into_a_folder_that_is_not_there(kin, workspace):
    shutil.copy(QUICKSTART, workspace / "q.ipynb")
    done = kin("save", "q.ipynb", "nowhere/out.ipynb")
    assert (done.returncode, done.stderr) == (1, "nowhere/out.ipynb cannot be written: No such file or directory\n")


def test_replay_names_what_cannot_be_replayed(kin, workspace):
    (workspace / "plain.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    done = kin("replay", "gone.ipynb", "plain.ipynb")
    assert done.returncode == 1
    gone, plain, *_ = done.stderr.splitlines()
    assert gone == "gone.ipynb cannot be read: No such file or directory."
    assert plain.startswith("plain.ipynb: This notebook has no")


@pytest.mark.kernel
def test_the_demo_runs_the_tools_without_a_key_and_shows_where_the_notebook_is(kin_process, home, tmp_path):
    done = kin_process("demo", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "turn  steps  calls  result" in done.stdout
    executed = Path(done.stdout.rpartition("jupyter lab ")[2].strip())
    assert executed.is_relative_to(tmp_path)
    assert executed.is_file()
    assert not (home / ".kin-code").exists()


def test_jupyterlab_takes_the_place_of_the_command_that_opened_it(home, workspace, tmp_path):
    (tmp_path / "jupyterlab").mkdir()
    (tmp_path / "jupyterlab" / "__init__.py").touch()
    (tmp_path / "jupyterlab" / "__main__.py").write_text("import os, sys\nprint(os.getpid(), sys.argv[1])\n")
    argv = [sys.executable, "-m", "kin_nb.cli", "demo", "--lab"]
    env = environment(home, PYTHONPATH=str(tmp_path))
    with subprocess.Popen(argv, cwd=workspace, env=env, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=60)
    pid, notebook = said.split()
    assert int(pid) == process.pid
    assert Path(notebook).read_bytes() == QUICKSTART.read_bytes()


@pytest.mark.parametrize("old", ["python -m unittest tests.test_stats", "First, how it fails."])
def test_the_demo_runs_nothing_of_a_notebook_that_did_not_come_with_it(monkeypatch, tmp_path, capsys, old):
    changed = QUICKSTART.read_text().replace(old, "touch owned")
    assert changed != QUICKSTART.read_text()
    (tmp_path / QUICKSTART.name).write_text(changed)
    monkeypatch.setattr(replay, "examples_folder", lambda: tmp_path)
    assert replay.demo() == 1
    said = capsys.readouterr()
    assert said.err.endswith("is not the example that came with this version of kin_nb.\n")
    assert said.out == ""


def test_the_demo_of_an_unknown_name_lists_the_examples(capsys):
    assert replay.demo("quikstart") == 1
    assert capsys.readouterr().err == (
        'Unknown example "quikstart". Examples: quickstart, data-analysis, investigate, refactor, second-thoughts, subagents.\n'
    )


def test_the_demo_that_needs_a_package_names_it_and_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as the import system notes a module that is not found
    assert (replay.demo("data-analysis"), replay.demo_in_lab("data-analysis")) == (1, 1)
    said = capsys.readouterr()
    message = (
        "The example data-analysis needs pandas and matplotlib; not installed here: pandas.\n"
        f"Install: {sys.executable} -m pip install pandas\n"
    )
    assert (said.out, said.err) == ("", message * 2)


OTHER_EXAMPLES = [name for name in replay.examples() if name not in {"quickstart", "second-thoughts"}]


@pytest.mark.kernel
@each_row("name", ["second-thoughts"], long=OTHER_EXAMPLES)
def test_the_demo_of_each_example_comes_out_as_recorded(kin, tmp_path, monkeypatch, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = kin("demo", name)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "came out as recorded." in done.stdout
