"""`kin-nb` where a stream or the current directory is not what one expects: a line, never a stack trace."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebook.people import environment

KIN = [sys.executable, "-m", "kin_nb.cli"]


def shell(home: Path, cwd: Path, script: str) -> subprocess.CompletedProcess[str]:
    """`script` with `kin` for the command."""
    command = ["bash", "-c", f'kin() {{ "{sys.executable}" -m kin_nb.cli "$@"; }}; {script}']
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("kin run <&-", 2, "The prompt is empty.\nGive one with -p TEXT or on standard input.\n"),
        ("kin sessions >&-", 0, ""),
        ("mkdir gone; cd gone; rmdir ../gone; kin config", 1, "The current directory cannot be used: No such file"),
        ("set -o pipefail; kin config --all | head -1", None, ""),
    ],
)
def test_odd_streams(home, workspace, script, code, said):
    done = shell(home, workspace, script)
    assert done.returncode == code or code is None
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a Linux device")
def test_a_full_disk_is_reported(home, workspace):
    done = shell(home, workspace, "kin config > /dev/full")
    assert (done.returncode, done.stderr) == (1, "The output cannot be written: No space left on device.\n")


def test_a_person_who_types_the_prompt_is_shown_how_it_ends(server, home, workspace):
    server.enqueue("Hello.")
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        [*KIN, "run"],
        cwd=workspace,
        env=environment(home),
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(terminal)
    try:
        os.write(person, b"Hello?\n\x04")
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        os.close(person)
    assert (process.returncode, out) == (0, "Hello.\n")
    assert err == "Type the prompt. End it with Ctrl-D on an empty line.\n"
    assert server.requests[0]["messages"][-1]["content"] == "Hello?\n"


@pytest.mark.parametrize("debug", [False, True])
def test_what_no_one_expected_is_a_line_and_a_trace_only_on_demand(kin, monkeypatch, debug):
    def broken(_arguments):
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr("kin_nb.cli.sessions.list_all", broken)
    monkeypatch.setenv("KIN_DEBUG", "1" if debug else "")
    done = kin("sessions")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-2:] == [
        "kin-nb failed: RuntimeError: one two",
        "Please report this. For the stack trace, set KIN_DEBUG=1 and run it again.",
    ]
    assert ("Traceback" in done.stderr) is debug
