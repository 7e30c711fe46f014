"""A person with an empty home folder, in an empty workspace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kin_nb.core.config import keys

Write = Callable[[Path | str, str], Path]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`~`, with an empty `.kin-code`; no variable of the person who runs the tests."""
    folder = tmp_path / "home"
    (folder / ".kin-code").mkdir(parents=True)
    for name in list(os.environ):
        if name.upper().startswith("KIN_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    keys._keyring_answers.cache_clear()
    keys._ask_keyring.cache_clear()
    return folder


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def kin(home: Path) -> Path:
    return home / ".kin-code"


@pytest.fixture
def write(kin: Path) -> Write:
    """Write a file, relative to `~/.kin-code`; returns it."""

    def write(path: Path | str, text: str) -> Path:
        path = kin / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
