"""AGENTS.md: whose are read, in which order, and what is reported of one that can't be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.system_prompt.builder import agents_md, agents_md_present
from kin_nb.core.system_prompt.git_facts import repository_root


def told(workdir: Path, *, trusted: bool = True, most_bytes: int = 1_000) -> str:
    return agents_md(workdir, trusted=trusted, most_bytes=most_bytes)


@pytest.fixture
def nested(project: Path, home: Path) -> Path:
    """A folder two below the repository's root, with AGENTS.md everywhere but in between."""
    (project / ".git").mkdir()
    workdir = project / "packages" / "one"
    workdir.mkdir(parents=True)
    (home / ".kin-code" / "AGENTS.md").write_text("person\n")
    (home / "AGENTS.md").write_text("above the repository")
    (project / "AGENTS.md").write_text("root")
    (workdir / "AGENTS.md").write_text("nearest")
    return workdir


def test_the_persons_comes_first_and_the_nearest_last(nested):
    assert told(nested).split("\n\n")[1:] == [
        '<instructions from="~/.kin-code/AGENTS.md">\nperson\n</instructions>',
        '<instructions from="AGENTS.md">\nroot\n</instructions>',
        '<instructions from="packages/one/AGENTS.md">\nnearest\n</instructions>',
    ]


def test_an_untrusted_project_says_nothing_and_what_it_has_can_be_named(nested, project):
    assert "person" in told(nested, trusted=False)
    assert "\nroot\n" not in told(nested, trusted=False)
    assert "\nnearest\n" not in told(nested, trusted=False)
    assert agents_md_present(nested) == [project / "AGENTS.md", nested / "AGENTS.md"]


def test_outside_a_repository_only_the_workspace_counts(home, project):
    (home / "AGENTS.md").write_text("above")
    assert agents_md_present(project) == []
    assert told(project) == ""


def test_a_file_is_cut_at_the_limit_and_that_is_reported(project):
    (project / "AGENTS.md").write_text("é" * 100)
    assert "\n" + "é" * 50 + "\n[… cut here: the file is longer than max_doc_bytes, 100 …]\n" in told(
        project, most_bytes=100
    )
    assert "cut here" not in told(project, most_bytes=200)


def test_bytes_that_are_no_text_are_replaced(project):
    (project / "AGENTS.md").write_bytes(b"\xef\xbb\xbfa\xffb")
    assert ">\na\ufffdb\n<" in told(project)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("../secret", "leads out of the repository"),
        (".env", "a link to .env, which may hold secrets"),
        ("AGENTS.md", "not read: "),
        ("nowhere", "there is no such file"),
        ("folder", "is a folder"),
    ],
)
def test_a_link_is_followed_only_to_a_plain_file_of_the_repository(project, target, said):
    (project.parent / "secret").write_text("hidden")
    (project / ".env").write_text("hidden")
    (project / "folder").mkdir()
    (project / "AGENTS.md").symlink_to(target)
    assert said in told(project)
    assert "hidden" not in told(project)


def test_a_link_within_the_repository_is_followed(project):
    (project / "CONTRIBUTING.md").write_text("shared rules")
    (project / "AGENTS.md").symlink_to("CONTRIBUTING.md")
    assert "shared rules" in told(project)


def test_a_named_pipe_does_not_block(project):
    os.mkfifo(project / "AGENTS.md")
    assert "[not read: AGENTS.md is a named pipe, not a regular file.]" in told(project)


def test_the_repositorys_root_is_found_without_git(project):
    (project / "a" / "b").mkdir(parents=True)
    assert repository_root(project / "a" / "b") == project / "a" / "b"
    (project / ".git").write_text("gitdir: elsewhere")  # a worktree's
    assert repository_root(project / "a" / "b") == project
    assert repository_root(project / "not there") == project / "not there"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_another_owner_ends_the_search(project):
    (project / "mine").mkdir()
    (project / ".git").mkdir()
    os.chown(project, 12345, -1)
    assert repository_root(project / "mine") == project / "mine"


def test_a_folder_above_that_was_refused_says_nothing(nested, project):
    TrustedFolders().distrust(project)
    TrustedFolders().trust(nested)
    assert agents_md_present(nested) == [nested / "AGENTS.md"]
