"""`kin-nb` as a process: what it prints where, how it exits, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kin_nb.replay import command
from tests.model_server import tool_call
from tests.notebook.people import QUICKSTART, environment, kin_nb, run, write_config

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def kin(home, workspace):
    """`kin-nb ARGV...` in the workspace."""
    return lambda *argv, **more: kin_nb(*argv, home=home, cwd=workspace, **more)


@pytest.fixture
def server(model_server, home):
    """The model server, and settings that name it."""
    write_config(home, model_server.url)
    return model_server


def sessions(home: Path) -> list[str]:
    return sorted(log.parent.name for log in (home / ".kin-code" / "sessions").glob("*/log.jsonl"))


# run


def test_the_answer_is_all_that_goes_to_stdout(kin, server):
    server.enqueue("Let me see.", calls=[tool_call("read_file", path="a.py")])
    server.enqueue("x is 1.")
    done = kin("run", "-p", "What is x?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "x is 1.\n", "")


def test_the_prompt_may_come_on_standard_input(server, home, workspace):
    server.enqueue("Hello.")
    done = run("-m", "kin_nb.cli", "run", home=home, cwd=workspace, stdin="Hello\nthere?\n")
    assert done.returncode == 0
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "Hello\nthere?\n"}


@pytest.mark.parametrize("output", ["json", "streaming"])
def test_all_messages_come_as_json(kin, server, output):
    server.enqueue("Let me see.", calls=[tool_call("read_file", path="a.py")])
    server.enqueue("x is 1 ✓")
    done = kin("run", "-p", "What is x?", "--output", output)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    messages = json.loads(done.stdout) if output == "json" else [json.loads(line) for line in lines]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[-1]["content"] == "x is 1 ✓"


def test_a_refused_edit_is_a_failure_that_says_how_to_allow_it(kin, server, workspace):
    server.enqueue(calls=[EDIT])
    server.enqueue("I may not.")
    done = kin("run", "-p", "Make x 3.")
    assert (done.returncode, done.stdout) == (1, "I may not.\n")
    assert done.stderr.startswith("Refused, because nobody can be asked here: edit_file. To allow more: --mode")
    assert "was refused" in server.requests[1]["messages"][-1]["content"]
    assert (workspace / "a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("mode", ["accept-edits", "auto_approve"])
def test_a_mode_that_allows_edits(kin, server, workspace, mode):
    server.enqueue(calls=[EDIT])
    server.enqueue("Done.")
    assert kin("run", "-p", "Make x 3.", "--mode", mode).returncode == 0
    assert (workspace / "a.py").read_text() == "x = 3\n"


def test_workdir_is_where_the_tools_work(server, home, workspace, tmp_path):
    server.enqueue("I look.", calls=[tool_call("read_file", path="a.py")])
    server.enqueue("Done.")
    done = kin_nb("run", "-p", "Look.", "--workdir", workspace, home=home, cwd=tmp_path)
    assert done.returncode == 0
    assert server.requests[1]["messages"][-1]["content"].startswith("x = 1")


def test_without_a_key_it_says_what_to_do(kin):
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stdout) == (1, "")
    for way in ("MISTRAL_API_KEY", "config.toml", "llama.cpp", "kin-nb demo"):
        assert way in done.stderr


def test_a_server_that_refuses_the_key_is_an_error_on_stderr_alone(kin, server):
    server.enqueue(status=401, body={"error": {"message": "who are you?"}})
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stdout) == (1, "")
    assert "401" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run", "-p", " \n"], "The prompt is empty"),
        (["run"], "The prompt is empty"),
        (["run", "-p", "x", "--mode", "yolo"], 'no mode "yolo". Modes: default, plan'),
        (["run", "-p", "x", "--output", "xml"], "invalid choice: 'xml'"),
        (["run", "-p", "x", "--workdir", "nowhere"], "--workdir nowhere: no such folder"),
        (["replay"], "the following arguments are required: NOTEBOOK"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_usage_is_exit_2(kin, argv, said):
    done = kin(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [[], ["run"], ["replay"], ["save"], ["demo"]])
def test_every_command_has_help(kin, words):
    done = kin(*words, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" ".join(["usage: kin-nb", *words]))


@contextmanager
def running(server, home, workspace) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """(`kin-nb run` while its bash call runs `sleep 60`, the process id of that sleep). Both are gone afterwards."""
    ready = workspace / "ready"
    os.mkfifo(ready)
    server.enqueue("I wait.", calls=[tool_call("bash", command="echo $$ > ready; exec sleep 60")])
    process = subprocess.Popen(
        [sys.executable, "-m", "kin_nb.cli", "run", "-p", "Wait.", "--mode", "auto-approve"],
        cwd=workspace,
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child = int(ready.read_text())  # opens when bash has come that far
    ready.unlink()
    try:
        yield process, child
    finally:
        for pid in (process.pid, child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=10)


def test_interrupt_is_exit_130_and_takes_the_running_tool_along(server, home, workspace):
    with running(server, home, workspace) as (process, child):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert process.returncode == 130
        assert "Traceback" not in errors
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


# save and replay


@pytest.mark.kernel
def test_a_session_that_was_killed_is_saved_from_its_log_and_replays(server, home, workspace, kin):
    with running(server, home, workspace) as (process, _):
        process.kill()
        process.wait(10)
    (session,) = sessions(home)
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
    for name, log in zip(("abc-1", "abc-2"), sessions(home), strict=True):
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


# demo


@pytest.mark.kernel
def test_the_demo_runs_the_tools_without_a_key_and_shows_where_the_notebook_is(kin, home, tmp_path):
    done = kin("demo", TMPDIR=str(tmp_path))
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
