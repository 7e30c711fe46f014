"""Where a session began, as git itself sees it, without asking git."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.session.metadata import session_metadata, workspace_location
from kin_nb.core.workspace_commit import GitHead, git_head, head_commit

IDENTITY = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENVIRONMENT = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout.strip()


@pytest.fixture
def repository(tmp_path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_the_commit_and_branch_that_git_names(repository):
    assert git_head(repository) == GitHead(git(repository, "rev-parse", "HEAD"), "main")
    assert head_commit(repository) == git(repository, "rev-parse", "HEAD")


def test_a_folder_below_and_a_branch_with_a_slash(repository):
    git(repository, "checkout", "-q", "-b", "feature/one")
    (repository / "deep" / "er").mkdir(parents=True)
    assert git_head(repository / "deep" / "er") == GitHead(git(repository, "rev-parse", "HEAD"), "feature/one")


def test_packed_references(repository):
    git(repository, "branch", "in-main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git" / "refs" / "heads" / "main").exists()
    assert git_head(repository) == GitHead(git(repository, "rev-parse", "HEAD"), "main")


def test_a_loose_reference_is_newer_than_a_packed_one(repository):
    git(repository, "pack-refs", "--all")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert head_commit(repository) == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize("pack", [False, True])
def test_a_linked_worktree_has_its_own_head(repository, tmp_path, pack):
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    git(tmp_path / "linked", "commit", "-q", "--allow-empty", "-m", "second")
    if pack:
        git(repository, "pack-refs", "--all")
    assert git_head(tmp_path / "linked") == GitHead(git(tmp_path / "linked", "rev-parse", "HEAD"), "other")
    assert git_head(repository).branch == "main"


def test_a_submodule_whose_git_folder_is_elsewhere(repository, tmp_path):
    git(tmp_path, "clone", "-q", "--separate-git-dir", str(tmp_path / "away"), str(repository), "clone")
    clone = tmp_path / "clone"
    (clone / ".git").write_text("gitdir: ../away\n")
    assert git_head(clone) == GitHead(git(repository, "rev-parse", "HEAD"), "main")


def test_a_detached_head_has_no_branch_and_a_new_repository_no_commit(repository, tmp_path):
    git(repository, "checkout", "-q", "--detach")
    assert git_head(repository) == GitHead(git(repository, "rev-parse", "HEAD"), None)
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q", "-b", "trunk")
    assert git_head(tmp_path / "new") == GitHead(None, "trunk")


def test_a_branch_that_stands_for_another(repository):
    git(repository, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repository, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert git_head(repository) == GitHead(git(repository, "rev-parse", "HEAD"), "alias")


def test_a_branch_is_recorded_by_its_name(subtests, repository):
    for number, name in enumerate(["main", "feature/one", "größe", "a" * 200]):
        with subtests.test(number=number):
            git(repository, "checkout", "-q", "-B", name)
            assert git_head(repository).recorded_branch == name


def test_a_detached_head_is_recorded_as_such_and_what_is_not_known_is_not(repository, tmp_path):
    git(repository, "checkout", "-q", "--detach")
    assert git_head(repository).recorded_branch == ""
    assert git_head(tmp_path).recorded_branch is None
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q", "-b", "trunk")
    assert git_head(tmp_path / "new").recorded_branch is None, "there is no commit yet"


def test_a_branch_whose_name_is_not_understood_is_not_recorded(subtests, repository):
    for number, name in enumerate([b"a\xffb", b"-x", b"a.lock", b"a[b", b"@{x", b"a^b", b"x/" * 600 + b"x"]):
        with subtests.test(number=number):
            (repository / ".git" / "packed-refs").write_bytes(b"%s refs/heads/%s\n" % (b"1" * 40, name))
            (repository / ".git" / "HEAD").write_bytes(b"ref: refs/heads/" + name)
            assert git_head(repository).recorded_branch is None


def test_a_branch_that_holds_a_secret_is_not_recorded(repository, monkeypatch):
    git(repository, "checkout", "-q", "-b", "fix/hunter2-hunter2")
    config = KinConfig(workdir=repository)
    assert workspace_location(config)["branch"] == "fix/hunter2-hunter2"
    monkeypatch.setenv("SERVICE_PASSWORD", "hunter2-hunter2")
    assert workspace_location(config) == {
        "workspace": str(repository),
        "commit": git(repository, "rev-parse", "HEAD"),
        "branch": None,
    }


def test_what_git_would_not_write_is_nothing(subtests, repository):
    for number, head in enumerate(
        [
            b"",
            b"\xff\x00",
            b"ref: refs/heads/../../../secret",
            b"ref: refs/heads/loop",
            b"ref: refs/heads/.invalid",
            b"ref: " + b"x" * 100_000,
            b"0" * 64,
        ]
    ):
        with subtests.test(number=number):
            (repository.parent / "secret").write_text("f" * 40)
            (repository / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop\n")
            (repository / ".git" / "HEAD").write_bytes(head)
            assert git_head(repository).commit is None
            assert git_head(repository).branch in {None, "loop"}


def test_a_pipe_in_place_of_a_file_is_not_waited_for(repository):
    (repository / ".git" / "HEAD").unlink()
    os.mkfifo(repository / ".git" / "HEAD")
    assert git_head(repository) == GitHead()


def test_outside_git_there_is_nothing(tmp_path):
    (tmp_path / ".git").mkdir()
    assert git_head(tmp_path) == GitHead()
    (tmp_path / ".git").rmdir()
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert git_head(tmp_path) == GitHead()


def test_surroundings_hold_what_the_metadata_wants_and_start_no_process(repository, monkeypatch):
    monkeypatch.setenv("LOGNAME", "blake")
    monkeypatch.setenv("PATH", "")
    found = session_metadata(repository)
    start = datetime.fromisoformat(found.pop("start_time"))
    assert start.utcoffset() is not None
    assert abs((datetime.now(start.tzinfo) - start).total_seconds()) < 60
    assert found == {
        "git_commit": head_commit(repository),
        "git_branch": "main",
        "username": "blake",
        "environment": {"working_directory": str(repository)},
    }
    assert found["git_commit"]


def test_a_user_without_a_name_has_none(tmp_path, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert session_metadata(tmp_path)["username"] == ""
