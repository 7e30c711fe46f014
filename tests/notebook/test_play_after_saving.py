"""`kin-nb save` plays what it saved, confined: in a copy, without network, keys and time without end."""

from __future__ import annotations

import re
import socket
import tempfile
from pathlib import Path

import psutil
import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.tools.builtins import sandbox
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.runner.confined import ConfinedPlay
from tests.notebook.people import PLAYED, kin_nb_here, write_config

pytestmark = pytest.mark.kernel


@pytest.fixture(autouse=True)
def confining(tmp_path):
    why = sandbox.problem(tmp_path, network=False)
    if why:
        pytest.skip(why)


def saved(path: Path, *arguments: str, **environment: str) -> str:
    home = path.parents[1] / "home"
    more = {"KIN_SAVE": PLAYED, **environment}
    done = kin_nb_here("save", path.name, "out.ipynb", *arguments, home=home, cwd=path.parent, **more)
    assert (done.returncode, done.stderr) == (0, "")
    assert (path.parent / "out.ipynb").exists()
    return done.stdout


CONFINED = """
import os, socket, sys
from pathlib import Path

def refused(what, *args):
    try:
        what(*args)
    except OSError:
        return True

home = Path.home()
assert refused(socket.create_connection, ("127.0.0.1", PORT)), "the network of this machine"
assert refused(Path("/var/tmp/kin-was-here-PORT").write_text, "x"), "other folders"
assert refused(socket.socket(socket.AF_UNIX).connect, "SOCKET"), "a service's socket"
assert not {"PORT_KEY", "OTHER_NAME", "KIN_SECRETS_DIR", "SSH_AUTH_SOCK"} & set(os.environ), "keys"
assert os.listdir(home / ".kin-code") == [], "kin_nb's own folder"
assert sys.stdin is None or sys.stdin.read() == ""
Path("data.csv").write_text("changed")
Path("/tmp/kin-was-here-PORT").write_text("x")
"""


@pytest.fixture
def service():
    """The path of a socket that someone listens at, outside of /tmp and of the workspace."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/socket")
        listening.listen()
        yield f"{folder}/socket"


def test_it_is_played_where_it_can_do_no_harm(written, tmp_path, model_server, service):
    port = model_server.url.rpartition(":")[2].partition("/")[0]
    write_config(tmp_path / "home", model_server.url, key_variable="OTHER_NAME")
    (tmp_path / "home" / ".kin-code" / ".env").write_text("OTHER_NAME=x")
    path = written(CONFINED.replace("PORT_KEY", "SERVICE_API_KEY").replace("PORT", port).replace("SOCKET", service))
    (path.parent / "data.csv").write_text("a,b\n")
    said = saved(path, SERVICE_API_KEY="x", OTHER_NAME="y", KIN_SECRETS_DIR=str(tmp_path), SSH_AUTH_SOCK="x")
    assert "Played once, without network, in a copy: 3 of 3 cells ran." in said
    assert (path.parent / "data.csv").read_text() == "a,b\n"
    assert not list(Path("/tmp").glob(f"kin-was-here-{port}"))


def test_the_missing_file_is_named_with_its_cell(written):
    path = written("x = 1", "name = 'sales' + '.csv'\nopen(name)")
    said = saved(path)
    assert "Stopped at cell 4: FileNotFoundError: [Errno 2] No such file or directory: 'sales.csv'" in said
    assert "To play it whole: kin-nb save out.ipynb --check" in said
    assert "Not run after saving." in saved(path, "--no-check"), "and nothing runs where that is not wanted"


def test_a_cell_that_takes_too_long_ends_the_play_and_the_notebook_is_saved(written):
    said = saved(written("import threading\nthreading.Event().wait()"), KIN_SAVE='{"check_seconds": 2}')
    assert re.search(r"Stopped after 2 s in cell \d; \d of 3 cells ran\. To play it whole: ", said)


def test_an_interrupted_play_leaves_no_process_and_no_copy(written, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = written("import subprocess, threading\nsubprocess.Popen(['sleep', '1000'])", "threading.Event().wait()")
    nb = as_node(load_notebook(path))

    def interrupt(cell: int, cells: int) -> None:
        if cell == cells:
            assert _in_play(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ConfinedPlay(path, nb, read_recording(nb), KinConfig(), 600).run(interrupt)
    assert not list(tmp_path.glob("kin-check-*"))
    assert not psutil.wait_procs(_in_play(tmp_path), timeout=60)[1]


def _in_play(folder: Path) -> list[psutil.Process]:
    """The processes whose current directory was in there."""
    copy = f"{folder}/kin-check-"
    return [process for process in psutil.process_iter(["cwd"]) if copy in (process.info["cwd"] or "")]


def test_where_it_cannot_be_confined_nothing_runs_and_that_is_reported(written, monkeypatch):
    path = written("open('ran.txt', 'w')")
    monkeypatch.setattr(sandbox, "problem", lambda *_, **__: "bubblewrap is for Linux only")
    said = SaveCommand(str(path), path.with_name("out.ipynb"), config=KinConfig(save={"check_seconds": 30})).run()
    assert said[-1].startswith(
        "Not played after saving: bubblewrap is for Linux only. To play it once in a copy, unconfined: "
    )
    assert not (path.parent / "ran.txt").exists()
