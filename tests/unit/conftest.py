"""Fixtures for the unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kin_nb.core.system_prompt import project_context
from kin_nb.core.system_prompt.git_facts import NO_GIT, git_facts, repository_root


def _facts_of_a_repository(workdir: Path, *, commits: int, timeout: float) -> str:
    if not (repository_root(workdir) / ".git").exists():
        return NO_GIT
    return git_facts(workdir, commits=commits, timeout=timeout)


@pytest.fixture(autouse=True, scope="session")
def _ask_git_in_repositories_only() -> Iterator[None]:
    """Spare every session of a test five processes of git that answer "not a repository"."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(project_context, "git_facts", _facts_of_a_repository)
        yield
