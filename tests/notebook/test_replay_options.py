"""A session that was lived and saved, run again with a copy of its workspace: with its files, and by asking the model again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output

from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, shown
from tests.notebook.people import environment, kin_nb_here, write_config
from tests.notebook.recorded import Lived, live

pytestmark = pytest.mark.kernel

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
RUN = tool_call("bash", command="python -c 'print(6 * 7)' > made.txt")
ELSE = tool_call("bash", command="touch otherwise.txt")
LOOK = "from pathlib import Path\nprint(Path('a.py').read_text(), Path('made.txt').exists())"
FIRST, SECOND = "%%kin\nMake x 2.", "%%kin\nAnd make the file."
SHOWN = "x = 2\n False\n"
"""What LOOK shows after the first turn, and when the second one was undone."""


def cells(kernel: Headless, server: ModelServer, _: Path) -> None:
    server.enqueue("I mend it.", calls=[EDIT])
    server.enqueue("x is 2.")
    kernel.ok(FIRST)
    kernel.ok(LOOK)
    server.enqueue(calls=[RUN])
    server.enqueue("Made.")
    kernel.ok(SECOND)
    kernel.ok("%kin undo")
    kernel.ok(LOOK)


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    return live(tmp_path_factory.mktemp("scratch"), {"a.py": "x = 1\n"}, cells, 'policy = "yolo"\n{}'.format)


@pytest.fixture
def shared(lived, tmp_path) -> Path:
    """The notebook in a teammate's copy of the workspace as it was at first."""
    folder = tmp_path / "shared"
    shutil.copytree(lived.before, folder)
    nb = lived.nb
    for cell in [cell for cell in nb["cells"] if cell["source"] == LOOK]:
        cell["outputs"] = [new_output("stream", text=SHOWN)]
        del cell["metadata"]["tags"]  # saving does not know what other cells showed
    nbformat.write(nb, folder / "out.ipynb")
    return folder


def test_with_scratch_ordinary_cells_find_the_files_as_they_were_then(shared, tmp_path):
    done = kin_nb_here("replay", "out.ipynb", "--scratch", home=tmp_path / "home", cwd=shared)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert (shared / "a.py").read_text() == "x = 1\n"
    assert not (shared / "made.txt").exists()
    plain = kin_nb_here("replay", "out.ipynb", home=tmp_path / "home", cwd=shared)
    assert plain.returncode == 3, "or --scratch made no difference"


@pytest.mark.long
def test_with_scratch_a_file_that_was_another_then_is_named_and_fails(shared, tmp_path):
    (shared / "a.py").write_text("y = 1\n")
    done = kin_nb_here("replay", "out.ipynb", "--scratch", home=tmp_path / "home", cwd=shared)
    assert done.returncode == 3
    why = "a.py: it was different when this was recorded"
    assert f"not in the scratch copy: turn 1: {why}" in done.stdout


def test_in_a_kernel_scratch_moves_it_into_a_copy_until_it_goes_live(shared, tmp_path):
    nb = nbformat.read(shared / "out.ipynb", as_version=4)
    head = nb["cells"][0]["source"]
    recorded = {"JPY_SESSION_NAME": str(shared / "out.ipynb")}
    with Headless.start(shared, {**environment(tmp_path / "home"), **recorded}) as kernel:
        assert "temporary copy of the workspace" in shown(kernel.ok(f"{head} --scratch"))
        copy = Path(shown(kernel.ok("import os; print(os.getcwd())")).strip())
        kernel.ok(FIRST)
        assert shown(kernel.ok(LOOK)) == SHOWN
        again = kernel.ok(f"{head.splitlines()[1]} --scratch")
        assert "Session" in shown(again)
        assert shown(kernel.ok(LOOK)) == "x = 1\n False\n", "a new copy, of the same workspace"
        assert "No key" in str(kernel.run("%kin live"))
        here = Path(shown(kernel.ok("print(os.getcwd())")).strip())
        assert here not in {copy, shared}, "it plays on in the new copy"
        assert "Not in the scratch copy" not in shown(kernel.ok(SECOND))
        with ModelServer.start() as server:
            write_config(tmp_path / "home", server.url)
            assert "Playback left: this notebook asks the model from here on" in shown(kernel.ok("%kin live"))
        assert shown(kernel.ok("print(os.getcwd())")).strip() == str(shared)
    assert copy != shared
    assert not copy.exists()
    assert (shared / "a.py").read_text() == "x = 1\n"


@pytest.fixture
def server(tmp_path) -> Iterator[ModelServer]:
    with ModelServer.start() as server:
        write_config(tmp_path / "home", server.url)
        yield server
        assert server.violations == []


def again(shared: Path, tmp_path: Path, *more: str):
    return kin_nb_here(
        "replay", "out.ipynb", "--live", "--output-dir", "out", *more, home=tmp_path / "home", cwd=shared
    )


@pytest.mark.long
def test_live_asks_the_model_and_what_it_does_now_is_a_session_notebook_beside_the_recorded_one(
    shared, tmp_path, server
):
    server.enqueue("I mend it.", calls=[EDIT])
    server.enqueue("x is 2.")
    server.enqueue(calls=[RUN])
    server.enqueue("Made.")
    done = again(shared, tmp_path, "--approve", "recorded")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "The model did the same as when it was recorded" in done.stdout
    assert (shared / "a.py").read_text() == "x = 1\n", "it worked in a copy"
    made = read_recording(load_notebook(shared / "out" / "out.ipynb"))
    assert made.session != read_recording(load_notebook(shared / "out.ipynb")).session
    assert [turn.prompt for turn in made.turns] == ["Make x 2.", "And make the file."]
    assert made.meta.workspace.path == ".."
    assert made.turns[1].calls[0].decision.by == "recorded"
    shutil.move(shared / "out" / "out.ipynb", shared / "now.ipynb")
    played = kin_nb_here("replay", "now.ipynb", "--scratch", "--workspace", ".", home=tmp_path / "else", cwd=shared)
    assert (played.returncode, played.stderr) == (0, ""), played.stdout
    shutil.move(shared / "now.ipynb", shared / "out" / "out.ipynb")
    twice = again(shared, tmp_path)
    assert (twice.returncode, len(server.requests)) == (1, 4), "no model is asked for what could not be written"
    assert "another live run does not replace it" in twice.stderr


@pytest.mark.long
def test_live_allows_what_was_allowed_and_no_other_call(shared, tmp_path, server):
    server.enqueue("x is 2.")
    server.enqueue(calls=[ELSE])
    server.enqueue("I may not.")
    done = again(shared, tmp_path, "--approve", "recorded", "--report", "json")
    assert done.returncode == 3, done.stderr
    (row,) = json.loads(done.stdout)["notebooks"]
    assert [turn["a"]["turn"] for turn in row["report"]["live"]["turns"]] == [1, 2]
    made = read_recording(load_notebook(shared / "out" / "out.ipynb"))
    assert made.turns[1].calls[0].decision.verdict == "deny"


def test_live_without_a_model_says_so_and_asks_no_one(shared, tmp_path):
    done = again(shared, tmp_path)
    assert done.returncode == 1
    assert "Stopped: cell 2: KinError" in done.stdout, done.stdout + done.stderr
