"""A home of one's own, and repositories in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's home: no configuration of git, none of kin_nb."""
    folder = tmp_path / "home"
    (folder / ".kin-code").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in [name for name in os.environ if name.startswith(("GIT_", "KIN_", "XDG_"))]:
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def git(project: Path) -> Git:
    """Runs git in the project as its author would."""

    def run(*arguments: str, check: bool = True) -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=project, check=check, capture_output=True, text=True).stdout

    return run


@pytest.fixture
def repository(project: Path, git: Git) -> Path:
    """`project`, with one commit of one file on branch main."""
    git("init", "-q", "-b", "main")
    (project / "a.py").write_text("x = 1\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "Begin")
    return project
