"""The Kin kernel: what is a prompt, what stays Python, and what it remembers of either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_client import LiveKernel, run, shown, write_config

from tests.model_server import ModelServer
from tests.notebook.people import kin_nb

pytestmark = pytest.mark.kernel


@pytest.fixture
def kin(model_server: ModelServer, tmp_path: Path) -> Iterator[LiveKernel]:
    write_config(tmp_path / "kin-home", model_server)
    environment = {"KIN_HOME": str(tmp_path / "kin-home"), "IPYTHONDIR": str(tmp_path / "ipython")}
    root = Path(__file__).parents[2]
    live = LiveKernel([root], environment, subshells=False, module="kin_nb.notebook.kernel", cwd=tmp_path)
    yield live
    live.close()


def test_what_code_runs_is_python_and_so_is_what_a_front_end_runs_silently(kin, model_server):
    run(kin, "%%python\nget_ipython().run_cell('x = 40')")
    content = {"code": "x += 2", "silent": True, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    assert kin.ask("execute_request", content)["content"]["status"] == "ok"
    assert kin.text(run(kin, "%%python\nprint(x)")) == "42\n"
    assert model_server.requests == []


def test_the_history_keeps_what_was_typed(kin, model_server):
    model_server.enqueue("Here.")
    for cell in ("Where is `it`?", "%%python\nx = 1", "!true", "/mode"):
        run(kin, cell)
    assert kin.text(run(kin, "%history")) == "Where is `it`?\n%%python\nx = 1\n!true\n/mode\n%history\n"


def test_an_error_in_python_is_pythons(kin):
    cell = kin.run("%%python\n1 / 0")
    assert kin.done(cell)["content"]["ename"] == "ZeroDivisionError"


def test_a_session_whose_file_is_not_known_is_saved_from_what_was_run_and_replays(kin, model_server, tmp_path):
    model_server.enqueue("Hello from the model.")
    for cell in ("Hello?", "%%python\nx = 6 * 7", "/mode", "%%python\nprint(x)"):
        run(kin, cell)
    assert "Saved" in shown(kin, run(kin, "/save"))
    saved = tmp_path / "session.kin.ipynb"
    sources = ["".join(cell["source"]) for cell in json.loads(saved.read_text())["cells"]]
    assert sources[1:] == ["%%kin\nHello?", "x = 6 * 7", "print(x)"]
    done = kin_nb("replay", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
