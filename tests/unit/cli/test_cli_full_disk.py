"""`kin-nb run` on a disk that is full: words on stderr, another exit code than 0, and an `/undo` that says what it lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.full_disk import Disk, NoSpace, SmallDisk, mounted, unmount
from tests.model_server import tool_call
from tests.notebook.people import write_config

WRITE = tool_call("write_file", path="a.py", content="x = 2\n", overwrite=True)


@pytest.fixture(params=["a file system", "a substitute"])
def disk(request, home, monkeypatch) -> Iterator[Disk]:
    """`~/.kin-code`."""
    if request.param == "a substitute":
        with pytest.MonkeyPatch.context() as patch:
            yield NoSpace(home / ".kin-code", patch)
        return
    if not mounted(home / ".kin-code"):
        pytest.skip("this process may not mount a file system")
    try:
        yield SmallDisk(home / ".kin-code")
    finally:
        unmount(home / ".kin-code")


@pytest.fixture
def server(disk, model_server, home, workspace):
    write_config(home, model_server.url)
    (workspace / "big.txt").write_text("keep me\n" * 30_000)
    return model_server


@pytest.mark.parametrize("leave", [8_192, 40_960, 90_112])
def test_what_undo_could_not_restore_is_refused_and_said(kin, server, workspace, disk, leave):
    disk.fill(leave)
    server.enqueue(calls=[WRITE])
    server.enqueue(calls=[tool_call("write_file", path="new.py", content="y\n")])
    server.enqueue(calls=[tool_call("bash", command="rm big.txt")])
    server.enqueue("Done.")
    done = kin("run", "-p", "Go.", "--mode", "auto-approve")
    assert (done.returncode, done.stdout) == (1, "Done.\n")
    assert "warning: The file history in " in done.stderr
    assert ".kin-code/checkpoints cannot be used (" in done.stderr
    assert "Not all of this session could be stored" in done.stderr
    answers = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert "write_file was refused: undo can" in answers[0]
    assert answers[1].startswith("[note: not covered by undo")
    assert "bash was refused: undo can" in answers[2]
    assert (workspace / "big.txt").exists()
    assert (workspace / "a.py").read_text() == "x = 1\n"
    disk.free()
    undone = kin("run", "--continue", "-p", "/undo")
    assert undone.returncode == 0
    assert "undo does not restore: " in undone.stdout


def test_a_session_that_is_stored_ends_with_0(kin, server, disk):
    server.enqueue(calls=[WRITE])
    server.enqueue("Done.")
    done = kin("run", "-p", "Go.", "--mode", "auto-approve")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")


def test_an_undo_that_cannot_be_stored_ends_with_1_and_leaves_the_files(kin, server, disk, workspace):
    server.enqueue(calls=[WRITE])
    server.enqueue("Done.")
    kin("run", "-p", "Go.", "--mode", "auto-approve")
    (workspace / "a.py").write_text("x = 2\n")
    disk.fill()
    undone = kin("run", "--continue", "-p", "/undo")
    assert undone.returncode == 1
    assert "warning: " in undone.stderr
    assert "left as it is: a.py" in undone.stdout or (workspace / "a.py").read_text() == "x = 1\n"
