"""A real Jupyter server for one front end: own home, own token, a free loopback port, nothing asked of the network."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.notebook.people import UNPLAYED

FrontEnd = Literal["lab", "notebook"]

MODULES: dict[FrontEnd, str] = {"lab": "jupyterlab", "notebook": "notebook"}
PAGES: dict[FrontEnd, str] = {"lab": "lab/workspaces/{fresh}/tree/{path}", "notebook": "notebooks/{path}"}

QUIET = (
    "--no-browser",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port=0",
    "--KernelManager.transport=ipc",  # TCP ports are chosen before the kernel binds them: servers side by side take each other's
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}


@dataclass(frozen=True)
class JupyterHome:
    """The folders that a server and its kernels see as theirs; nothing of the person's own settings is among them."""

    root: Path

    @property
    def kin_home(self) -> Path:
        return self.root / "kin-home"

    @property
    def notebooks(self) -> Path:
        """The server's root folder: one sub-folder for each test."""
        return self.root / "notebooks"

    def environment(self) -> dict[str, str]:
        """Only what is named here: keys and settings of the person who runs the tests stay outside."""
        paths = [str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        return kept | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(paths),
            "HOME": str(self.root),
            "KIN_HOME": str(self.kin_home),
            "KIN_SAVE": UNPLAYED,
            "JUPYTER_CONFIG_DIR": str(self.root / "config"),
            "JUPYTER_DATA_DIR": str(self.root / "data"),
            "IPYTHONDIR": str(self.root / "ipython"),
        }

    def create(self) -> None:
        self.kin_home.mkdir()
        self.notebooks.mkdir()
        settings = self.root / "config/lab/user-settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(NO_NEWS))


@dataclass
class JupyterServer:
    """A running server. `url` ends with a slash; `log` grows line by line."""

    front_end: FrontEnd
    home: JupyterHome
    token: str = field(default_factory=secrets.token_hex)
    log: list[str] = field(default_factory=list)
    url: str = ""

    def page(self, path: str) -> str:
        """The address that opens notebook `path` (relative to the server's root) in a layout of its own."""
        page = PAGES[self.front_end].format(fresh=secrets.token_hex(4), path=quote(path))
        return f"{self.url}{page}?token={self.token}"

    def api(self, path: str, method: str = "GET") -> Any:
        """The REST API's JSON answer, None when it has no body. Raises urllib.error.URLError."""
        request = Request(f"{self.url}api/{path}", method=method, headers={"Authorization": f"token {self.token}"})
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def shut_down_kernels(self) -> None:
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")


@contextmanager
def jupyter_server(front_end: FrontEnd, home: JupyterHome, *, timeout: float = 60) -> Iterator[JupyterServer]:
    """Start `front_end`'s server and wait till it answers; its kernels end with it. Raises RuntimeError with its log."""
    server = JupyterServer(front_end, home)
    command = [sys.executable, "-m", MODULES[front_end], *QUIET]
    command += [f"--IdentityProvider.token={server.token}", f"--ServerApp.root_dir={home.notebooks}"]
    command += ["--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"]
    if os.geteuid() == 0:
        command.append("--allow-root")
    runtime = tempfile.mkdtemp(prefix="kin-", dir="/tmp")  # a socket's address is short
    environment = home.environment() | {"JUPYTER_RUNTIME_DIR": runtime}
    process = subprocess.Popen(
        command, cwd=home.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said_where = Event()
    reader = Thread(target=_read_log, args=(process, server, said_where), name=f"log of {front_end}")
    reader.start()
    try:
        if not said_where.wait(timeout) or not server.url:
            raise RuntimeError(f"{front_end} did not start:\n" + "".join(server.log))
        _wait_for_answer(server, process)
        yield server
    finally:
        process.terminate()  # SIGTERM: the server shuts its kernels down
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        shutil.rmtree(runtime)


def _wait_for_answer(server: JupyterServer, process: subprocess.Popen[str]) -> None:
    """Ask till it listens: the log names the port some milliseconds earlier."""
    while process.poll() is None:
        try:
            server.api("status")
        except URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
        else:
            return
    raise RuntimeError(f"{server.front_end} ended while starting:\n" + "".join(server.log))


def _read_log(process: subprocess.Popen[str], server: JupyterServer, said_where: Event) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            server.log.append(line)
            found = re.search(r"(http://127\.0\.0\.1:\d+/)\S*token=", line)
            if found and not server.url:
                server.url = found[1]
                said_where.set()
    said_where.set()
