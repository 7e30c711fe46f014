"""A teammate's machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import ModelServer
from tests.notebook.headless import LOAD, Headless
from tests.notebook.in_process_page import InProcessPage
from tests.notebook.people import environment, write_config
from tests.unit.replay.sessions import recording, turn


@dataclass(frozen=True)
class Stage:
    """`kernel` runs in `root`, for a person whose model is at `server`."""

    root: Path
    kernel: Headless
    server: ModelServer

    @property
    def home(self) -> Path:
        return self.root / "home"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Of someone who has a model, which is never asked."""
    root = tmp_path_factory.mktemp("stage")
    with ModelServer.start() as server:
        write_config(root / "home", server.url)
        with Headless.start(root, environment(root / "home")) as kernel:
            kernel.ok(LOAD)
            yield Stage(root, kernel, server)
        assert server.requests == []


@pytest.fixture
def page(tmp_path: Path, model_server: ModelServer) -> Iterator[InProcessPage]:
    """An empty notebook, its user's front end and a kernel in this process; its model is the server."""
    with InProcessPage(tmp_path / "person", model_server) as page:
        yield page


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """A session notebook with ordinary cells of these sources, from cell 3 on, below its prompt."""

    def write(*sources: str) -> Path:
        outputs = [new_output("stream", text="x")]
        cells = [new_code_cell("%%kin\nfirst", id="ask")]
        cells += [
            new_code_cell(source, id=f"own-{n}", execution_count=1, outputs=outputs) for n, source in enumerate(sources)
        ]
        made = session_notebook(recording(turn(1, "first", cell_id="ask")), source_nb=new_notebook(cells=cells))
        (tmp_path / "project").mkdir()
        return write_notebook(made, tmp_path / "project" / "talk.ipynb")

    return write
