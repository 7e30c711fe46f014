"""Whether a notebook is open: servers on loopback that answer, refuse to, never do, or are gone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kin_nb.replay.saving import writing
from kin_nb.replay.saving.writing import open_in
from tests.serving import serving

Server = Callable[..., str]
DOES_NOT_SAY = "(or may be: that server does not say what it has open"


@pytest.fixture
def notebook(tmp_path) -> Path:
    path = tmp_path / "root" / "my talk.ipynb"
    path.parent.mkdir()
    path.touch()
    return path


@pytest.fixture
def announce(tmp_path, monkeypatch) -> Callable[..., None]:
    """Says of a server, in Jupyter's runtime folder, that it runs."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder))

    def announce(url: str, root: Path, **more: object) -> None:
        known = {"url": url, "root_dir": str(root), "token": "t", **more}
        (folder / f"jpserver-{len(list(folder.iterdir()))}.json").write_text(json.dumps(known))

    return announce


@pytest.fixture
def server(announce, notebook) -> Iterator[Server]:
    """Starts one that answers so, and announces it for `root`; its address."""
    running: list[ThreadingHTTPServer] = []

    def server(status: int, answer: str, root: Path = notebook.parent) -> str:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, *_: object) -> None:
                pass

        made = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        running.append(made)
        url = f"http://127.0.0.1:{made.server_port}/"
        announce(url, root)
        return url

    yield server
    for each in running:
        each.shutdown()
        each.server_close()


def test_a_session_on_the_file_has_it_open(server, notebook):
    url = server(200, json.dumps([{"path": "other.ipynb"}, {"path": notebook.name}, {"path": None}, "x"]))
    assert open_in(notebook) == url


def test_sessions_on_other_files_have_not(server, notebook):
    server(200, json.dumps([{"path": "other.ipynb"}]))
    assert open_in(notebook) == ""


@pytest.mark.parametrize(
    ("status", "answer"), [(403, '{"message": "Forbidden"}'), (302, ""), (200, "<html>"), (500, "[")]
)
def test_a_server_that_can_reach_the_file_and_does_not_say_may_have_it_open(server, notebook, status, answer):
    url = server(status, answer)
    assert open_in(notebook).startswith(f"{url} {DOES_NOT_SAY}")


def test_a_server_that_cannot_reach_the_file_has_not(server, notebook, tmp_path):
    server(403, "", root=tmp_path / "elsewhere")
    assert open_in(notebook) == ""


def test_one_that_says_so_is_not_hidden_by_one_that_has_another_folder(server, notebook, tmp_path):
    server(403, "", root=tmp_path / "elsewhere")
    url = server(200, json.dumps([{"path": notebook.name}]))
    assert open_in(notebook) == url


def test_a_server_that_takes_the_question_and_never_answers_may_have_it_open(announce, notebook, monkeypatch):
    monkeypatch.setattr(writing, "_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        announce(url, notebook.parent)
        assert open_in(notebook).startswith(f"{url} {DOES_NOT_SAY}")


def test_all_servers_are_asked_at_the_same_time(announce, notebook, monkeypatch):
    """Each answers only when all have been asked: one after the other would wait for the first in vain."""
    monkeypatch.setattr(writing, "_SECONDS", 60)
    together = threading.Barrier(12)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            together.wait(60)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Answer)) as server:
        for _ in range(together.parties):
            announce(f"http://127.0.0.1:{server.server_address[1]}/", notebook.parent, pid=os.getpid())
        assert open_in(notebook) == ""
    assert not together.broken


def test_a_server_that_is_gone_has_nothing_open(announce, notebook):
    with socket.create_server(("127.0.0.1", 0)) as ended:
        url = f"http://127.0.0.1:{ended.getsockname()[1]}/"
    announce(url, notebook.parent)
    announce("http://[no address/", notebook.parent)
    assert open_in(notebook) == ""


def test_a_server_whose_process_is_not_to_be_seen_is_asked_as_in_a_container(announce, server, notebook):
    address = server(200, json.dumps([{"path": notebook.name}]), root=notebook.parent.parent / "elsewhere")
    announce(address, notebook.parent, pid=_ended())
    assert open_in(notebook) == address


def test_a_server_whose_process_is_gone_has_nothing_open_though_another_has_its_port(announce, server, notebook):
    address = server(403, "{}", root=notebook.parent.parent / "elsewhere")
    announce(address, notebook.parent, pid=_ended())
    assert open_in(notebook) == ""
    announce(address, notebook.parent, pid=os.getpid())
    assert DOES_NOT_SAY in open_in(notebook)


def _ended() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
