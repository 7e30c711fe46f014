"""A teammate's machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.model_server import ModelServer
from tests.notebook.headless import LOAD, Headless
from tests.notebook.people import environment, write_config


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
    """Of somebody who has a model, which is never asked."""
    root = tmp_path_factory.mktemp("stage")
    with ModelServer.start() as server:
        write_config(root / "home", server.url)
        with Headless.start(root, environment(root / "home")) as kernel:
            kernel.ok(LOAD)
            yield Stage(root, kernel, server)
        assert server.requests == []
