"""A home and a workspace of one's own, and skills in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kin-home"
    folder.mkdir()
    monkeypatch.setenv("KIN_HOME", str(folder))
    return folder


@pytest.fixture
def config(home: Path, tmp_path: Path) -> KinConfig:
    (tmp_path / "workspace").mkdir()
    return KinConfig(workdir=tmp_path / "workspace")
