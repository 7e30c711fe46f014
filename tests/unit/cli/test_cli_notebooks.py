"""`kin-nb save`, `replay` and `demo` as processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kin_nb.replay import command
from tests.notebook.people import QUICKSTART
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
    done = kin("replay", "killed.ipynb")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "turn 1, step 1: [bash] echo $$ > ready; exec sleep 60 · interrupted" in done.stdout
    again = kin("replay", "--tools", "--approve", "recorded", "killed.ipynb")
    assert (again.returncode, again.stderr) == (0, ""), "what was interrupted is not run, and is no drift"


def test_save_names_a_session_that_is_unknown_or_not_the_only_one(kin, server, home, workspace):
    for _ in range(2):
        server.enqueue("Hello.")
        assert kin("run", "-p", "Hello?").returncode == 0
    folder = home / ".kin-code" / "sessions"
    for name, log in zip(("abc-1", "abc-2"), session_ids(home), strict=True):
        (folder / log).rename(folder / name)
    unknown, several = kin("save", "xyz", "out.ipynb"), kin("save", "abc", "out.ipynb")
    assert (unknown.returncode, unknown.stderr) == (1, f"No session xyz in {folder}.\n")
    assert (several.returncode, several.stderr) == (1, "abc begins the ids of 2 sessions: abc-1, abc-2.\n")
    assert not (workspace / "out.ipynb").exists()


def test_save_into_a_folder_that_is_not_there(kin, workspace):
    shutil.copy(QUICKSTART, workspace / "q.ipynb")
    done = kin("save", "q.ipynb", "nowhere/out.ipynb")
    assert (done.returncode, done.stderr) == (1, "nowhere/out.ipynb cannot be written: No such file or directory\n")


def test_replay_names_what_cannot_be_replayed(kin, workspace):
    (workspace / "plain.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    done = kin("replay", "gone.ipynb", "plain.ipynb")
    assert done.returncode == 1
    gone, plain = done.stderr.splitlines()
    assert gone == "gone.ipynb cannot be read: No such file or directory."
    assert plain.startswith("plain.ipynb: This notebook holds no recording")


@pytest.mark.kernel
def test_the_demo_runs_the_tools_without_a_key_and_shows_where_the_notebook_is(kin_process, home, tmp_path):
    done = kin_process("demo", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "turn  steps  calls  result" in done.stdout
    executed = Path(done.stdout.rpartition("jupyter lab ")[2].strip())
    assert executed.is_relative_to(tmp_path)
    assert executed.is_file()
    assert not (home / ".kin-code").exists()


@pytest.mark.parametrize("old", ["python -m unittest tests.test_stats", "First, how it fails."])
def test_the_demo_runs_nothing_of_a_notebook_that_did_not_come_with_it(monkeypatch, tmp_path, capsys, old):
    changed = QUICKSTART.read_text().replace(old, "touch owned")
    assert changed != QUICKSTART.read_text()
    (tmp_path / QUICKSTART.name).write_text(changed)
    monkeypatch.setattr(command, "examples_folder", lambda: tmp_path)
    assert command.demo() == 1
    said = capsys.readouterr()
    assert said.err.endswith("is not the quickstart that came with this version of kin_nb.\n")
    assert said.out == ""
