"""A plain export, run where there is no kin_nb: its files come out as those of the session that runs its tools again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.plain_export import plain_notebook
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.run_notebook import replay_notebook
from tests.model_server import tool_call
from tests.notebook.headless import KernelProcess, error_of, error_text, shown
from tests.notebook.people import QUICKSTART, environment
from tests.notebook.recorded import live

pytestmark = pytest.mark.kernel

WITHOUT_US = """
import sys
sys.modules["kin_nb"] = None  # importing it fails
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""


def own_copy(name: str, folder: Path) -> tuple[Path, Path]:
    """(the example's notebook, its workspace), in `folder`."""
    workspace = Path("workspaces") / name
    shutil.copytree(QUICKSTART.parent / workspace, folder / workspace)
    shutil.copy(QUICKSTART.with_name(f"{name}.ipynb"), folder)
    return folder / f"{name}.ipynb", workspace


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files}


def left_by_its_tools(name: str, folder: Path) -> dict[str, tuple[bytes, int]]:
    """The workspace's files as `kin-nb replay --tools --approve recorded` leaves them in its copy."""
    path, workspace = own_copy(name, folder)
    nb = nbformat.read(path, as_version=4)
    copied = f"import shutil\nshutil.copytree({str(workspace)!r}, {str(folder / 'left')!r})"
    nb["cells"].append(new_code_cell(copied, id="copied"))
    nbformat.write(nb, path)
    report = replay_notebook(path, ReplayOptions(tools=True, approve_recorded=True, output_dir=folder / "out"))
    assert report.exit_code == 0, report.text()
    return tree(folder / "left")


def run_without_us(nb: Any, folder: Path, home: Path) -> list[Any]:
    """The code cells, executed from the top. Every one must end as it did when it was recorded."""
    headless = KernelProcess(folder)
    headless._client.km.kernel_spec.argv[1:3] = ["-c", WITHOUT_US]
    with headless._sockets, headless._client.setup_kernel(cwd=str(folder), env=environment(home)):
        assert error_of(headless.run("import kin_nb"))["ename"] == "ModuleNotFoundError"
        executed = []
        for cell in nb["cells"]:
            if cell["cell_type"] == "code":
                executed.append(headless.run(cell["source"]))
                assert error_of(executed[-1]) is None, error_text(executed[-1])
    return executed


@pytest.mark.parametrize("name", ["quickstart", "data-analysis"])
def test_it_leaves_the_files_that_the_session_leaves(name, tmp_path):
    path, workspace = own_copy(name, tmp_path / "plain")
    before = tree(path.parent / workspace)
    nb = load_notebook(path)
    plain = plain_notebook(read_recording(nb), nb)
    executed = run_without_us(plain, path.parent, tmp_path / "home")
    after = tree(path.parent / workspace)
    assert after == left_by_its_tools(name, tmp_path / "replayed")
    if name == "quickstart":
        assert after != before
        assert [
            ("FAILED" in shown(cell), "OK" in shown(cell)) for cell in executed if "unittest" in cell["source"]
        ] == [
            (True, False),
            (False, True),
            (True, False),
            (False, True),
        ]
    else:
        assert shown(executed[-1]) == shown(as_node(nb)["cells"][-1]), (
            "the person's own cell finds what the agent bound"
        )


def test_after_an_undo_it_gives_the_values_that_the_session_gave(tmp_path):
    """Undo puts the file back and leaves the variable; the user's cells come along where no file of the notebook is known."""

    def cells(kernel, server, _workspace):
        kernel.ok("before = 5")
        for value in (1, 2):
            write = tool_call("bash", command=f"echo {value} > n.txt")
            read = tool_call("python", code="value = before + int(open('n.txt').read())")
            server.enqueue("I write.", calls=[write])
            server.enqueue("I read.", calls=[read])
            server.enqueue("Done.")
            kernel.ok(f"%%kin --mode auto-approve\nSet it, {value}.")
        kernel.ok("%kin undo")
        yield "live", kernel.ok("print(value, open('n.txt').read())")
        kernel.ok("%kin save plain --plain")

    (root := tmp_path / "lived").mkdir()
    lived = live(root, {"a.py": ""}, cells)
    assert shown(lived.named["live"]) == "7 1\n\n"
    folder = tmp_path / "elsewhere"
    shutil.copytree(lived.before, folder)
    executed = run_without_us(load_notebook(lived.workspace / "plain.ipynb"), folder, tmp_path / "home")
    assert shown(executed[-1]) == shown(lived.named["live"])
