"""The Kin kernel: what is a prompt, what stays Python, and what it remembers of either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, run, shown, write_config

from tests.model_server import ModelServer, tool_call
from tests.notebook.people import kin_nb_here
from tests.notebook.people import run as run_python

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
    done = kin_nb_here("replay", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_notebook_whose_file_is_known_is_saved_and_passes_its_own_checks(kin, model_server, tmp_path):
    path = tmp_path / "chat.ipynb"
    kernelspec = {"name": "kin", "display_name": "Kin", "language": "python"}
    path.write_text(
        json.dumps(new_notebook(metadata={"kernelspec": kernelspec}, cells=[new_code_cell("Hello?", id="cell-1")]))
    )
    run(kin, f"%%python\nimport os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}")
    model_server.enqueue("Hello from the model.")
    model_server.enqueue("No.")
    for number, cell in enumerate(("Hello?", "Once more?", "/undo"), 1):
        assert kin.done(kin.run(cell, cell=f"cell-{number}"))["content"]["status"] == "ok"
    assert "Saved" in shown(kin, run(kin, "/save"))
    saved = tmp_path / "chat.kin.ipynb"
    done = kin_nb_here("replay", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    nbval = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "--nbval", saved)
    done = run_python(*nbval, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_loading_what_is_loaded_says_nothing_and_leaves_the_session(kin, model_server):
    model_server.enqueue("Hello from the model.")
    run(kin, "Hello?")
    assert kin.of(run(kin, "%load_ext kin_nb"))[-1]["msg_type"] == "status"
    assert kin.text(run(kin, "%load_ext kin_nb")) == ""
    assert "Hello from the model." in shown(kin, run(kin, "/last"))


@pytest.mark.parametrize("word", ["exit", "quit()\n"])
def test_in_a_notebook_exit_is_no_prompt_and_says_how_to_stop(kin, model_server, word):
    assert "Kernel > Shut Down" in shown(kin, run(kin, word))
    assert kin.text(run(kin, "%%python\nprint(6 * 7)")) == "42\n"
    assert model_server.requests == []


def test_a_prompt_that_begins_with_exit_is_one(kin, model_server):
    model_server.enqueue("It ends the loop.")
    assert "It ends the loop." in shown(kin, run(kin, "exit the loop earlier?"))


def test_a_hint_about_changed_code_is_shown_live_saved_and_played(kin, model_server, tmp_path):
    (tmp_path / "hinted.py").write_text("x = 1\n")
    hint = "warning: hinted.py changed, and this kernel has imported it: %load_ext autoreload"
    model_server.enqueue(calls=[tool_call("write_file", path="hinted.py", content="x = 22\n", overwrite=True)])
    model_server.enqueue("Done.")
    run(kin, "%%python\nimport sys; sys.path.insert(0, '.'); import hinted")
    run(kin, "/mode auto-approve")
    assert hint in shown(kin, run(kin, "Make x 22."))
    assert "Saved" in shown(kin, run(kin, "/save"))
    saved = tmp_path / "session.kin.ipynb"
    assert hint in saved.read_text()
    done = kin_nb_here("replay", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
