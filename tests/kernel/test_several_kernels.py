"""Kernels and what is around them: two in one folder, one that knows nothing but its connection file, one that is left."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from jupyter_client import BlockingKernelClient, write_connection_file
from notebook_client import SECONDS, Client, LiveKernel, run, shown, write_config

from kin_nb.notebook.tap import _INSTALL_SECONDS
from tests.model_server import ModelServer, tool_call
from tests.notebook.people import environment

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
LEFT = """
import ipywidgets, json, signal, sys, threading
_ip = get_ipython()
_before = {
    "threads": sorted(t.name for t in threading.enumerate()),
    "names": sorted(name for name in globals() if not name.startswith("_")),
    "magics": sorted(_ip.magics_manager.magics["line"]) + sorted(_ip.magics_manager.magics["cell"]),
    "matchers": [str(m) for m in _ip.Completer.custom_matchers],
    "hooks": {name: [str(f) for f in found] for name, found in _ip.events.callbacks.items()},
    "transformers": [str(f) for f in [*_ip.input_transformers_cleanup, *_ip.input_transformers_post, *_ip.ast_transformers]],
    "custom errors": str(_ip.custom_exceptions),
    "interrupts": str(signal.getsignal(signal.SIGINT)),
    "comms": sorted(_ip.kernel.comm_manager.targets),
    "path": sys.path,
}
print(json.dumps(_before))
"""


@pytest.fixture
def settings(model_server: ModelServer, tmp_path: Path) -> dict[str, str]:
    write_config(tmp_path / "kin-home", model_server)
    return {"KIN_HOME": str(tmp_path / "kin-home"), "IPYTHONDIR": str(tmp_path / "ipython")}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@contextmanager
def started(settings: dict[str, str], workspace: Path, module: str) -> Iterator[LiveKernel]:
    live = LiveKernel([ROOT], settings, subshells=False, module=module, cwd=workspace)
    try:
        yield live
    finally:
        live.close()


@pytest.fixture
def other(settings, workspace) -> Iterator[LiveKernel]:
    """An ordinary kernel."""
    with started(settings, workspace, "ipykernel_launcher") as live:
        yield live


@pytest.fixture
def kin(settings, workspace) -> Iterator[LiveKernel]:
    """A Kin kernel in the same folder."""
    with started(settings, workspace, "kin_nb.notebook.kernel") as live:
        yield live


def begins(nb: LiveKernel, cell: str) -> None:
    """Wait until the answer to it has begun to show."""
    nb.until(
        lambda m: (
            m["parent_header"].get("msg_id") == cell
            and "The begi" in str(m["content"].get("data", {}).get("text/plain", ""))
        )
    )


def test_two_kernels_in_one_folder_answer_at_the_same_time_and_undo_each_its_own(
    kin, other, model_server, workspace, tmp_path
):
    run(other, "%load_ext kin_nb")
    hold = threading.Event()
    for _ in (kin, other):
        model_server.enqueue("The beginning of an answer.", hold=hold)
    cells = kin.run("From one."), other.run("%%kin\nFrom the other.")
    begins(kin, cells[0])
    begins(other, cells[1])
    hold.set()
    assert kin.done(cells[0])["content"]["status"] == other.done(cells[1])["content"]["status"] == "ok"
    for nb, cell, name in ((kin, "/mode auto-approve", "one"), (other, "%kin mode auto-approve", "two")):
        run(nb, cell)
        model_server.enqueue(calls=[tool_call("write_file", path=f"{name}.txt", content=name)])
        model_server.enqueue("Written.")
        run(nb, f"%%kin\nWrite {name}.")
    assert {path.name for path in workspace.glob("*.txt")} == {"one.txt", "two.txt"}
    asked = [[m["content"] for m in r["messages"] if m["role"] == "user"] for r in model_server.requests[2:]]
    assert asked == [["From one.", "Write one."]] * 2 + [["From the other.", "Write two."]] * 2
    logs = list((tmp_path / "kin-home" / "sessions").glob("*/log.jsonl"))
    records = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
    assert sorted(lines[-1]["totals"]["turns"] for lines in records) == [2, 2]
    run(kin, "/undo")
    assert {path.name for path in workspace.glob("*.txt")} == {"two.txt"}


def test_a_kernel_that_has_a_connection_file_and_nothing_else(model_server, tmp_path, workspace):
    """As a gateway or a cluster starts it: another folder, no variable of Jupyter's, a client that is elsewhere."""
    home = tmp_path / "home"
    home.mkdir()
    write_config(home / ".kin-code", model_server)
    with ExitStack() as ends:
        file = tmp_path / "c.json"
        sockets = Path(ends.enter_context(TemporaryDirectory(prefix="kin-")))
        write_connection_file(str(file), key=b"secret", transport="ipc", ip=str(sockets / "k"))
        kernel = subprocess.Popen(
            [sys.executable, "-m", "kin_nb.notebook.kernel", "-f", file],
            cwd=workspace,
            env=environment(home, PYTHONPATH=str(ROOT)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ends.callback(kernel.wait, SECONDS)
        ends.callback(kernel.kill)
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels(hb=False)  # its heart has stopped when this ends
        ends.callback(client.stop_channels)
        client.wait_for_ready(timeout=4 * SECONDS)
        nb = Client(client)
        model_server.enqueue("Hello from afar.")
        assert "Hello from afar." in shown(nb, run(nb, "Hello?"))
        assert "session.kin.ipynb" in shown(nb, run(nb, "%kin save"))
        assert (workspace / "session.kin.ipynb").is_file()
        nb.client.shutdown()
        assert kernel.wait(_INSTALL_SECONDS) == 0  # without having waited for a thread of its own that was gone


def test_nothing_is_left_of_the_extension_when_it_is_unloaded(other, model_server):
    nb = other
    before = json.loads(nb.text(run(nb, LEFT)))
    run(nb, "%load_ext kin_nb\n%config KinMagics.mode = 'auto-approve'")
    model_server.enqueue(calls=[tool_call("bash", command="true")])
    model_server.enqueue("Done.")
    run(nb, "%%kin\nGo.")
    nb.ask("complete_request", {"code": "%kin und", "cursor_pos": 8})
    run(nb, "%unload_ext kin_nb")
    assert json.loads(nb.text(run(nb, LEFT))) == before
