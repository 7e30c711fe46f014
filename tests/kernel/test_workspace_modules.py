"""A workspace holds modules that are called like kin_nb's own imports: kin_nb does not import them, the user may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_client import LiveKernel, run, write_config

from tests.model_server import ModelServer, tool_call

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
NAMES = ["pydantic", "httpx", "h11", "anyio", "yaml", "nh3", "markdown_it", "ipywidgets", "tree_sitter", "nbformat"]
NAMES += ["tomllib", "difflib", "mcp"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Each module leaves a file when it is imported, and cannot be used."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / name) + '.ran'!r}, 'w').close()\nraise RuntimeError('of the workspace')\n"
        )
    return folder


@pytest.fixture(params=["ipykernel_launcher", "kin_nb.notebook.kernel"])
def kernel(request, model_server: ModelServer, tmp_path: Path, workspace: Path) -> Iterator[LiveKernel]:
    write_config(tmp_path / "kin-home", model_server)
    settings = {"KIN_HOME": str(tmp_path / "kin-home"), "IPYTHONDIR": str(tmp_path / "ipython")}
    live = LiveKernel([ROOT], settings, subshells=False, module=request.param, cwd=workspace)
    yield live
    live.close()


def ran(tmp_path: Path) -> list[str]:
    return sorted(path.stem for path in tmp_path.glob("*.ran"))


def assert_unloading_leaves_no_finder(kernel: LiveKernel) -> None:
    magic = "%%python\n" if kernel.ask("kernel_info_request", {})["content"]["implementation"] == "kin" else ""
    find = "import sys\nprint(sum('kin_nb' in type(finder).__module__ for finder in sys.meta_path))"
    unload = "from kin_nb import unload_ipython_extension as unload\nunload(get_ipython())\n"
    assert kernel.text(run(kernel, f"{magic}{find}")) == "1\n"
    assert kernel.text(run(kernel, f"{magic}{unload}{find}")) == "0\n"


def test_kin_nb_imports_no_module_of_the_workspace_and_code_that_the_agent_runs_may(
    kernel, model_server, workspace, tmp_path
):
    run(kernel, "%load_ext kin_nb")
    assert ran(tmp_path) == []
    run(kernel, "%kin help")
    run(kernel, "%kin mode auto-approve")
    model_server.enqueue(
        "Reading.", calls=[tool_call("read_file", path="yaml.py"), tool_call("bash", command="ls | wc")]
    )
    model_server.enqueue("**Done.**\n\n```python\nx = 1\n```")
    run(kernel, "%%kin\nLook around.")
    (workspace / "mine.py").write_text("import helper\nx = helper.x\n")
    (workspace / "helper.py").write_text("x = 'from the workspace'\n")
    model_server.enqueue(calls=[tool_call("python", code="import mine\nprint(mine.x)")])
    model_server.enqueue("Done.")
    run(kernel, "%%kin\nImport mine.")
    assert "from the workspace" in model_server.requests[-1]["messages"][-1]["content"]
    run(kernel, "%kin save out.ipynb")
    assert ran(tmp_path) == []
    assert_unloading_leaves_no_finder(kernel)
    saved = json.loads((tmp_path / "workspace" / "out.ipynb").read_text())
    assert "Done." in json.dumps(saved)


def test_the_users_own_imports_are_as_everywhere(kernel, workspace):
    """Also of a module that is called like one of kin_nb's, imported before kin_nb needs it."""
    (workspace / "mine.py").write_text("import helper\nx = helper.x\n")
    (workspace / "helper.py").write_text("x = 'from the workspace'\n")
    (workspace / "sniffio.py").write_text("x = 'from the workspace'\n")
    magic = "%%python\n" if kernel.ask("kernel_info_request", {})["content"]["implementation"] == "kin" else ""
    before = run(kernel, f"{magic}import sniffio\nprint(sniffio.x)")
    run(kernel, "%load_ext kin_nb")
    after = run(kernel, f"{magic}import sniffio, mine\nprint(sniffio.x, mine.x)")
    assert kernel.text(before) == "from the workspace\n"
    assert kernel.text(after) == "from the workspace from the workspace\n"
