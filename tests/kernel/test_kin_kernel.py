"""The Kin kernel: what is a prompt, what stays Python, and what it remembers of either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, run, shown, write_config

from tests.model_server import ModelServer, tool_call
from tests.notebook.people import kin_nb_here
from tests.notebook.people import run as run_python

pytestmark = pytest.mark.kernel


@contextmanager
def started(server: ModelServer, folder: Path) -> Iterator[LiveKernel]:
    write_config(folder / "kin-home", server)
    environment = {"KIN_HOME": str(folder / "kin-home"), "IPYTHONDIR": str(folder / "ipython")}
    root = Path(__file__).parents[2]
    live = LiveKernel([root], environment, subshells=False, module="kin_nb.notebook.kernel", cwd=folder)
    try:
        yield live
    finally:
        live.close()


@pytest.fixture
def kin(model_server: ModelServer, tmp_path: Path) -> Iterator[LiveKernel]:
    """A kernel of the test's own, which saves what it ran."""
    with started(model_server, tmp_path) as live:
        yield live


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Of `shared`."""
    with ModelServer.start() as server:
        yield server
        assert server.violations == []


@pytest.fixture(scope="module")
def shared(server: ModelServer, tmp_path_factory) -> Iterator[LiveKernel]:
    """A kernel of all tests here that do not save. Each asks in cells of its own."""
    with started(server, tmp_path_factory.mktemp("shared")) as live:
        yield live


def ask(nb: LiveKernel, server: ModelServer, prompt: str, answer: str) -> None:
    server.enqueue(answer)
    cell = nb.run(prompt, cell=f"asked-{len(server.requests)}")
    assert nb.done(cell)["content"]["status"] == "ok"
    assert answer in shown(nb, cell)


def test_what_code_runs_is_python_and_so_is_what_a_front_end_runs_silently(shared, server):
    asked = len(server.requests)
    run(shared, "%%python\nget_ipython().run_cell('x = 40')")
    content = {"code": "x += 2", "silent": True, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    assert shared.ask("execute_request", content)["content"]["status"] == "ok"
    assert shared.text(run(shared, "%%python\nprint(x)")) == "42\n"
    assert len(server.requests) == asked


def test_the_history_keeps_what_was_typed(shared, server):
    ask(shared, server, "Where is `it`?", "Here.")
    for cell in ("%%python\nx = 1", "!true", "/mode"):
        run(shared, cell)
    history = shared.text(run(shared, "%history"))
    assert f"\n{history}".endswith("\nWhere is `it`?\n%%python\nx = 1\n!true\n/mode\n%history\n")


def test_an_error_in_python_is_pythons(shared):
    cell = shared.run("%%python\n1 / 0")
    assert shared.done(cell)["content"]["ename"] == "ZeroDivisionError"


IMPORTING = "import sys; sys.path.insert(0, '.'); import hinted"


def test_a_session_whose_file_is_not_known_is_saved_from_what_was_run_with_its_hints_and_replays(
    kin, model_server, tmp_path
):
    (tmp_path / "hinted.py").write_text("x = 1\n")
    hint = "warning: hinted.py changed, and this kernel has imported it: %load_ext autoreload"
    model_server.enqueue("Hello from the model.")
    model_server.enqueue(calls=[tool_call("write_file", path="hinted.py", content="x = 22\n", overwrite=True)])
    model_server.enqueue("Done.")
    first = ("Hello?", "%%python\nx = 6 * 7", "/mode auto-approve", "%%python\nprint(x)", f"%%python\n{IMPORTING}")
    for number, cell in enumerate(first):
        assert kin.done(kin.run(cell, cell=f"first-{number}"))["content"]["status"] == "ok"
    cell = kin.run("Make x 22.", cell="last")
    kin.done(cell)
    assert hint in shown(kin, cell)
    assert "Saved" in shown(kin, run(kin, "/save"))
    saved = tmp_path / "session.kin.ipynb"
    cells = json.loads(saved.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    assert sources[1:] == ["%%kin\nHello?", "x = 6 * 7", "print(x)", IMPORTING, "%%kin\nMake x 22."]
    assert hint in saved.read_text()
    done = kin_nb_here("replay", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def saved(kin, model_server, tmp_path) -> Path:
    """By the kernel of a notebook whose file is known."""
    path = tmp_path / "chat.ipynb"
    kernelspec = {"name": "kin", "display_name": "Kin", "language": "python"}
    path.write_text(
        json.dumps(new_notebook(metadata={"kernelspec": kernelspec}, cells=[new_code_cell("Hello?", id="cell-1")]))
    )
    run(kin, f"%%python\nimport os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}")
    model_server.enqueue("Hello from the model.")
    model_server.enqueue("No.")
    for number, cell in enumerate(("Hello?", "Once more?", "/undo"), 1):
        assert kin.done(kin.run(cell, cell=f"first-{number}"))["content"]["status"] == "ok"
    assert "Saved" in shown(kin, run(kin, "/save"))
    return tmp_path / "chat.kin.ipynb"


def test_a_notebook_whose_file_is_known_is_saved_and_replays(saved, tmp_path):
    done = kin_nb_here("replay", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long  # in every run: the examples, and notebook/test_failing_cells.py
def test_a_notebook_whose_file_is_known_is_saved_and_passes_nbval(saved, tmp_path):
    nbval = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "--nbval", saved)
    done = run_python(*nbval, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_loading_what_is_loaded_says_nothing_and_leaves_the_session(shared, server):
    ask(shared, server, "Hello?", "Hello from the model.")
    assert shared.of(run(shared, "%load_ext kin_nb"))[-1]["msg_type"] == "status"
    assert shared.text(run(shared, "%load_ext kin_nb")) == ""
    assert "Hello from the model." in shown(shared, run(shared, "/last"))


@pytest.mark.parametrize("word", ["exit", "quit()\n"])
def test_in_a_notebook_exit_is_no_prompt_and_says_how_to_stop(shared, server, word):
    asked = len(server.requests)
    assert "Kernel > Shut Down" in shown(shared, run(shared, word))
    assert shared.text(run(shared, "%%python\nprint(6 * 7)")) == "42\n"
    assert len(server.requests) == asked


def test_a_prompt_that_begins_with_exit_is_one(shared, server):
    ask(shared, server, "exit the loop earlier?", "It ends the loop.")
