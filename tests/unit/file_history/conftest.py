"""A workspace, and its history."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kin_nb.core.file_history import FileHistory, workspace_store


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIN_HOME", str(tmp_path_factory.mktemp("kin-home")))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def history(root: Path) -> Iterator[FileHistory]:
    history = FileHistory(root, workspace_store(root))
    yield history
    history.close()
