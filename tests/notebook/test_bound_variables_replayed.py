"""What the agent bound in a session, for the cells after it: bound once, in playback and where the tools run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from kin_nb.replay.binding_cells import BINDING_TAG, catching_errors
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, shown
from tests.notebook.people import kin_nb_here
from tests.notebook.recorded import Lived, live

pytestmark = pytest.mark.kernel

FAILS = "ran.append('half')\nhalf = 1\nhalf / 0"
BINDS = "import math\nran.append('whole')\nwhole = math.floor(half + 1.5)\nprint('whole', whole)"


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    return live(tmp_path_factory.mktemp("bound"), {}, _cells)


def _cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    """The agent binds two variables, one of them by code that fails; ordinary cells before and after."""
    kernel.ok("ran = []")
    server.enqueue("Half.", calls=[tool_call("python", code=FAILS)])
    server.enqueue("The whole.", calls=[tool_call("python", code=BINDS)])
    server.enqueue("Bound.")
    kernel.ok("%%kin --mode auto-approve\nBind whole.")
    assert shown(kernel.ok("print(half, whole, ran)")) == "1 2 ['half', 'whole']\n"


def bound_cells(nb: Any) -> list[Any]:
    return [cell for cell in nb["cells"] if BINDING_TAG in cell["metadata"].get("tags", [])]


def last_line(path: Path) -> str:
    return shown(nbformat.read(path, as_version=4)["cells"][-1])


def test_saving_writes_the_code_below_the_turn_and_shows_nothing_twice(lived):
    failed, whole = bound_cells(lived.nb)
    assert failed["source"] == f"# What the agent ran here, and it failed; it bound: half\n{catching_errors(FAILS)}"
    assert whole["source"] == f"# What the agent ran here; it bound: whole\n{BINDS}"
    assert (failed["outputs"], whole["outputs"]) == ([], [])
    assert lived.nb["cells"].index(failed) == 1 + next(
        n for n, cell in enumerate(lived.nb["cells"]) if cell["source"].startswith("%%kin")
    )


@pytest.mark.parametrize("tools", [(), ("--tools", "--approve", "recorded")], ids=["playback", "tools"])
def test_each_piece_of_code_runs_once_and_later_cells_find_its_variables(lived, tmp_path, tools):
    done = kin_nb_here(
        "replay", *tools, "--output-dir", tmp_path / "out", lived.notebook, home=lived.home, cwd=lived.notebook.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_line(tmp_path / "out" / "out.ipynb") == "1 2 ['half', 'whole']\n"


def test_where_the_tools_run_again_and_no_one_allows_it_the_code_does_not_run_either(lived, tmp_path):
    out = tmp_path / "out"
    done = kin_nb_here(
        "replay", "--tools", "--output-dir", out, lived.notebook, home=lived.home, cwd=lived.notebook.parent
    )
    assert done.returncode == 1
    assert "NameError: name 'half' is not defined" in done.stdout + done.stderr
