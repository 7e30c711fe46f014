"""Where a turn is run again."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty; and ~/.kin-code is not the person's."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder
