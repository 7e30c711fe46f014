"""A session that was lived in a kernel and saved, and what holds of every such session when it is played again."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from tests.model_server import ModelServer
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.headless import LOAD, Headless, shown
from tests.notebook.people import environment, kin_nb, run, write_config


@dataclass(frozen=True)
class Lived:
    """`notebook` was saved in `workspace`, which was `before` at first; `ran`: all cells, as they were live."""

    notebook: Path
    workspace: Path
    before: Path
    home: Path
    ran: list[Any]
    requests: list[dict[str, Any]]

    @property
    def nb(self) -> Any:
        return nbformat.read(self.notebook, as_version=4)

    @property
    def cells(self) -> list[Any]:
        """Those that the notebook has to hold."""
        return acting(self.ran)


def live(
    root: Path,
    files: Mapping[str, str],
    cells: Callable[[Headless, ModelServer, Path], None],
    settings: Callable[[str], str] = str,
) -> Lived:
    """`cells(kernel, server, workspace)` runs them, in a workspace with `files`; `settings` may change config.toml."""
    workspace, home = root / "project", root / "home"
    workspace.mkdir()
    for name, text in files.items():
        (workspace / name).write_text(text)
    before = shutil.copytree(workspace, root / "before")
    with ModelServer.start() as server:
        config = write_config(home, server.url)
        config.write_text(settings(config.read_text()))
        with Headless.start(workspace, environment(home)) as kernel:
            kernel.ok(LOAD)
            cells(kernel, server, workspace)
            kernel.ok("%kin save out")
            ran = list(kernel.nb["cells"])
        assert server.violations == []
    return Lived(workspace / "out.ipynb", workspace, before, home, ran, server.requests)


def acting(cells: list[Any]) -> list[Any]:
    """Those that ask, undo or redo."""
    return [cell for cell in cells if re.match(r"%%kin|%kin (undo|redo)", cell["source"])]


def data_of(cell: Any) -> list[Any]:
    return [(output["output_type"], output["data"], output["metadata"].get("kin")) for output in cell["outputs"]]


def replayed_with_tools(notebook: Path, workspace: Path, output_dir: Path) -> subprocess.CompletedProcess[str]:
    argv = ["--tools", "--approve", "recorded", "--workspace", workspace, "--output-dir", output_dir]
    output_dir.mkdir(exist_ok=True)
    return kin_nb("replay", *argv, notebook, home=output_dir / "home", cwd=output_dir)


class PlayedAgain:
    """For a module with a fixture `lived`: `class TestPlayedAgain(PlayedAgain)`."""

    said = ""
    """What `kin-nb replay --tools` prints, a regular expression."""

    def test_what_is_saved_is_what_the_cells_showed_to_the_byte(self, lived: Lived) -> None:
        assert list(map(data_of, acting(lived.nb["cells"]))) == list(map(data_of, lived.cells))
        assert len(lived.cells) > 1

    def test_jupyter_execute_shows_the_same_again(self, lived: Lived, tmp_path: Path) -> None:
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

    def test_the_tools_run_again_without_drift_and_the_cards_are_the_same(self, lived: Lived, tmp_path: Path) -> None:
        done = replayed_with_tools(lived.notebook, lived.before, tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert re.search(self.said, done.stdout, re.MULTILINE), done.stdout
        again = nbformat.read(tmp_path / "out.ipynb", as_version=4)
        assert list(map(shown, acting(again["cells"]))) == list(map(shown, acting(lived.nb["cells"])))

    def test_a_rebuilt_notebook_from_the_log_is_the_same_recording(self, lived: Lived, tmp_path: Path) -> None:
        (session,) = [log.parent.name for log in (lived.home / ".kin-code" / "sessions").glob("*/log.jsonl")]
        done = kin_nb("save", session, "from-log.ipynb", home=lived.home, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        saved = nbformat.read(tmp_path / "from-log.ipynb", as_version=4)
        assert list(map(data_of, acting(saved["cells"]))) == list(map(data_of, acting(lived.nb["cells"])))
