"""A session in which turns were undone, given back and asked again: saved, played, run again, rebuilt, gone on with."""

from __future__ import annotations

import copy
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.model_server import ModelServer, tool_call
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.headless import LOAD, Headless, error_text, shown
from tests.notebook.people import environment, kin_nb, run, write_config

pytestmark = pytest.mark.kernel

WRITE = tool_call("write_file", path="b.txt", content="one\n")
SED = tool_call("bash", command="sed -i s/x/z/ a.txt && touch new.txt")
AGAIN = tool_call("bash", command="sed -i s/x/w/ a.txt")


@dataclass(frozen=True)
class Lived:
    """`notebook` was saved in `workspace`, which was `before` at first; `cells`: those that asked or undid, in order."""

    notebook: Path
    workspace: Path
    before: Path
    home: Path
    cells: list[Any]
    requests: list[dict[str, Any]]

    @property
    def nb(self) -> Any:
        return nbformat.read(self.notebook, as_version=4)


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    root = tmp_path_factory.mktemp("undone")
    workspace, home = root / "project", root / "home"
    workspace.mkdir()
    (workspace / "a.txt").write_text("x\n")
    before = shutil.copytree(workspace, root / "before")
    with ModelServer.start() as server:
        write_config(home, server.url)
        with Headless.start(workspace, environment(home)) as kernel:
            cells = _live(kernel, server, workspace)
        assert server.violations == []
    return Lived(workspace / "out.ipynb", workspace, before, home, cells, server.requests)


def _live(kernel: Headless, server: ModelServer, workspace: Path) -> list[Any]:
    """Writes b.txt; changes a.txt, undone, given back, undone; changes a.txt otherwise, in the same words."""
    kernel.ok(LOAD)
    server.enqueue("I write.", calls=[WRITE])
    server.enqueue("Written.")
    cells = [kernel.ok("%%kin --mode auto-approve\nWrite b.")]
    server.enqueue("I change a.", calls=[SED])
    server.enqueue("Changed.")
    cells.append(kernel.ok("%%kin\nChange a."))
    cells.append(kernel.ok("%kin undo"))
    assert files(workspace) == {"a.txt": "x\n", "b.txt": "one\n"}
    cells.append(kernel.ok("%kin redo"))
    assert files(workspace) == {"a.txt": "z\n", "b.txt": "one\n", "new.txt": ""}
    cells.append(kernel.ok("%kin undo 1"))
    server.enqueue("I change a otherwise.", calls=[AGAIN])
    server.enqueue("Changed otherwise.")
    cells.append(kernel.ok("%%kin\nChange a."))
    kernel.ok("%kin save out")
    return cells


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".txt"}


def acting(nb: Any) -> list[Any]:
    return [cell for cell in nb["cells"] if re.match(r"%%kin|%kin (undo|redo)", cell["source"])]


def data_of(cell: Any) -> list[Any]:
    return [(output["output_type"], output["data"], output["metadata"].get("kin")) for output in cell["outputs"]]


def test_the_model_was_not_told_of_what_was_undone(lived):
    last = [message.get("content") or "" for message in lived.requests[4]["messages"]]
    assert "Write b." in last
    assert last.count("Change a.") == 1
    assert "Changed." not in last


def test_each_undo_has_its_own_cell_where_it_happened(lived):
    sources = [cell["source"] for cell in acting(lived.nb)]
    assert sources[2:] == ["%kin undo 1", "%kin redo", "%kin undo 1", "%%kin\nChange a."]
    types = [record["type"] for cell in acting(lived.nb) for record in cell["metadata"]["kin"]]
    assert types == ["turn", "turn", "undo", "redo", "undo", "turn"]


def test_what_is_saved_is_what_the_cells_showed_to_the_byte(lived):
    for live, stored in zip(lived.cells, acting(lived.nb), strict=True):
        assert data_of(live) == data_of(stored)
    assert "a.txt" in shown(lived.cells[2])


def test_jupyter_execute_shows_the_same_again(lived, tmp_path):
    path = tmp_path / "shared" / "out.ipynb"
    path.parent.mkdir()
    stripped = copy.deepcopy(lived.nb)
    for cell in stripped["cells"]:
        cell["outputs"], cell["execution_count"] = [], None
    nbformat.write(stripped, path)
    script = Path(sys.executable).with_name("jupyter-execute")
    done = run(script, path, "--output", tmp_path / "again.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_notebook(nbformat.read(tmp_path / "again.ipynb", as_version=4), lived.nb)


def test_the_undos_are_done_again_in_the_copy_without_drift(lived, tmp_path):
    done = replayed_with_tools(lived.notebook, lived.before, tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "Every tool call and undo came out as it was recorded." in done.stdout
    again = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert [shown(cell) for cell in acting(again)] == [shown(cell) for cell in acting(lived.nb)]


def test_the_copy_has_the_files_of_the_conversation_that_stands(lived, tmp_path):
    nb = lived.nb
    look = "import os, pathlib; w = pathlib.Path(os.environ['KIN_REPLAY_WORKSPACE'])\n"
    look += "print({p.name: p.read_text() for p in sorted(w.glob('*.txt'))})"
    nb["cells"].append(nbformat.v4.new_code_cell(look))
    nbformat.write(nb, tmp_path / "looking.ipynb")
    done = replayed_with_tools(tmp_path / "looking.ipynb", lived.before, tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    (last,) = nbformat.read(tmp_path / "out" / "looking.ipynb", as_version=4)["cells"][-1]["outputs"]
    assert last["text"].strip() == str({"a.txt": "w\n", "b.txt": "one\n"})


def test_an_undo_that_comes_out_otherwise_is_drift(lived, tmp_path):
    workspace = shutil.copytree(lived.before, tmp_path / "other")
    (workspace / "new.txt").write_text("was there\n")  # the turn did not make it, so the undo does not remove it
    done = replayed_with_tools(lived.notebook, workspace, tmp_path / "out")
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"^undo after turn 2: effect: new\.txt", done.stdout, re.MULTILINE), done.stdout


def test_a_rebuilt_notebook_from_the_log_is_the_same_recording(lived, tmp_path):
    (session,) = [log.parent.name for log in (lived.home / ".kin-code" / "sessions").glob("*/log.jsonl")]
    done = kin_nb("save", session, "from-log.ipynb", home=lived.home, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = nbformat.read(tmp_path / "from-log.ipynb", as_version=4)
    assert [data_of(cell) for cell in acting(saved)] == [data_of(cell) for cell in acting(lived.nb)]


def test_an_undo_that_was_not_recorded_is_an_error_in_playback_and_changes_nothing(lived, tmp_path):
    with Headless.start(lived.workspace, environment(tmp_path / "home")) as kernel:
        kernel.ok(lived.nb["cells"][0]["source"])
        said = error_text(kernel.run("%kin undo"))
        assert said.startswith("NotRecorded: not recorded: no undo of 1 turn comes here")
        assert files(lived.workspace) == {"a.txt": "w\n", "b.txt": "one\n"}
        for cell in acting(lived.nb):
            assert [o["data"] for o in kernel.ok(cell["source"])["outputs"]] == [o["data"] for o in cell["outputs"]]


def test_it_goes_on_live_where_the_undos_lead(lived, tmp_path):
    """The recording, cut before its last turn: the undone turn is not sent, and the undo survives the next save."""
    workspace, home = shutil.copytree(lived.before, tmp_path / "project"), tmp_path / "home"
    from kin_nb.replay.format import read_recording
    from kin_nb.replay.recording import Recording
    from kin_nb.replay.saving import session_notebook, write_notebook

    whole = read_recording(lived.nb)
    nb = session_notebook(Recording(whole.session, whole.turns[:2], whole.meta, undos=whole.undos))
    write_notebook(nb, workspace / "cut.ipynb")
    with ModelServer.start() as server:
        write_config(home, server.url)
        with Headless.start(workspace, environment(home)) as kernel:
            for cell in nb["cells"]:
                kernel.ok(cell["source"])
            kernel.ok("%kin live")
            server.enqueue("Going on.")
            kernel.ok("%%kin\nGo on.")
            kernel.ok("%kin save on")
    said = [message.get("content") or "" for message in server.requests[0]["messages"]]
    assert "Written." in said
    assert "Changed." not in said
    saved = read_recording(nbformat.read(workspace / "on.ipynb", as_version=4))
    assert saved.undos == whole.undos
    assert saved.turns[2].origin == whole.turns[2].origin is not None


def replayed_with_tools(notebook: Path, workspace: Path, output_dir: Path) -> Any:
    argv = ["--tools", "--approve", "recorded", "--workspace", workspace, "--output-dir", output_dir]
    output_dir.mkdir(exist_ok=True)
    return kin_nb("replay", *argv, notebook, home=output_dir / "home", cwd=output_dir)
