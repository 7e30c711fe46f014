"""A session that was lived in a kernel and saved, and what holds of every such session when it is played again."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from kin_nb.replay.runner.execution import socket_settings
from tests.model_server import ModelServer
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.headless import LOAD, Headless, shown
from tests.notebook.people import environment, kin_nb_here, write_config


@dataclass(frozen=True)
class Lived:
    """`notebook` was saved in `workspace`, which was `before` at first; `ran`: all cells, as they were live.

    `named`: those that `cells` gave a name. `environment` is that of the person who lived it.
    """

    notebook: Path
    workspace: Path
    before: Path
    home: Path
    environment: dict[str, str]
    server: ModelServer
    ran: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)

    @property
    def nb(self) -> Any:
        return nbformat.read(self.notebook, as_version=4)

    @property
    def cells(self) -> list[Any]:
        """Those that the notebook has to hold."""
        return acting(self.ran)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.server.requests


Cells = Callable[[Headless, ModelServer, Path], Iterable[tuple[str, Any]] | None]


@contextmanager
def living(
    root: Path, files: Mapping[str, str], cells: Cells, settings: Callable[[str], str] = str, **more: str
) -> Iterator[Lived]:
    """`cells(kernel, server, workspace)` runs them, in a workspace with `files`; it may name some, by yielding pairs.

    `settings` may change config.toml, `more` goes to the environment. The server lives as long as the block.
    """
    workspace, home = root / "project", root / "home"
    workspace.mkdir()
    for name, text in files.items():
        (workspace / name).write_text(text)
    before = shutil.copytree(workspace, root / "before")
    with ModelServer.start() as server:
        config = write_config(home, server.url)
        config.write_text(settings(config.read_text()))
        lived = Lived(workspace / "out.ipynb", workspace, before, home, environment(home, **more), server)
        with Headless.start(workspace, lived.environment) as kernel:
            kernel.ok(LOAD)
            lived.named.update(cells(kernel, server, workspace) or ())
            kernel.ok("%kin save out")
            lived.ran.extend(kernel.nb["cells"])
        yield lived
        assert server.violations == []


def live(root: Path, files: Mapping[str, str], cells: Cells, settings: Callable[[str], str] = str) -> Lived:
    """As `living`, and its server is gone."""
    with living(root, files, cells, settings) as lived:
        return lived


def stripped(nb: Any) -> Any:
    """A copy without outputs and counts."""
    nb = copy.deepcopy(nb)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return nb


def executed(path: Path, home: Path) -> Any:
    """What nbclient makes of that notebook, in its folder."""
    nb = nbformat.read(path, as_version=4)
    with TemporaryDirectory(prefix="kin-") as sockets:
        config = Config({"AsyncKernelManager": socket_settings(Path(sockets))})
        NotebookClient(nb, timeout=60, config=config).execute(cwd=str(path.parent), env=environment(home))
    return nb


def acting(cells: list[Any]) -> list[Any]:
    """Those that ask, or move the conversation."""
    return [cell for cell in cells if re.match(r"%%kin|%kin (undo|redo|clear|compact)", cell["source"])]


def data_of(cell: Any) -> list[Any]:
    return [(output["output_type"], output["data"], output["metadata"].get("kin")) for output in cell["outputs"]]


def replayed_with_tools(notebook: Path, workspace: Path, output_dir: Path) -> subprocess.CompletedProcess[str]:
    argv = ["--tools", "--approve", "recorded", "--workspace", workspace, "--output-dir", output_dir]
    output_dir.mkdir(exist_ok=True)
    return kin_nb_here("replay", *argv, notebook, home=output_dir / "home", cwd=output_dir)


class PlayedAgain:
    """For a module with a fixture `lived`: `class TestPlayedAgain(PlayedAgain)`."""

    said = ""
    """What `kin-nb replay --tools` prints, a regular expression."""

    def test_what_is_saved_is_what_the_cells_showed_to_the_byte(self, lived: Lived) -> None:
        assert list(map(data_of, acting(lived.nb["cells"]))) == list(map(data_of, lived.cells))
        assert len(lived.cells) > 1

    def test_nbclient_shows_the_same_again(self, lived: Lived, tmp_path: Path) -> None:
        path = tmp_path / "shared" / "out.ipynb"
        path.parent.mkdir()
        nbformat.write(stripped(lived.nb), path)
        assert_same_notebook(executed(path, tmp_path / "home"), lived.nb)

    def test_the_tools_run_again_without_drift_and_the_cards_are_the_same(self, lived: Lived, tmp_path: Path) -> None:
        done = replayed_with_tools(lived.notebook, lived.before, tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert re.search(self.said, done.stdout, re.MULTILINE), done.stdout
        again = nbformat.read(tmp_path / "out.ipynb", as_version=4)
        assert list(map(shown, acting(again["cells"]))) == list(map(shown, acting(lived.nb["cells"])))

    def test_a_rebuilt_notebook_from_the_log_is_the_same_recording(self, lived: Lived, tmp_path: Path) -> None:
        (session,) = [log.parent.name for log in (lived.home / ".kin-code" / "sessions").glob("*/log.jsonl")]
        done = kin_nb_here("save", session, "from-log.ipynb", home=lived.home, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        saved = nbformat.read(tmp_path / "from-log.ipynb", as_version=4)
        assert list(map(data_of, acting(saved["cells"]))) == list(map(data_of, acting(lived.nb["cells"])))
