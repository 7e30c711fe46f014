"""Tools run again in a copy: a clone at the recorded commit, the files as they are where there is none."""

from __future__ import annotations

import os
import subprocess

import pytest

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.workspace_copy import CopyLimit, copy_workspace


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("committed\n")
    return folder


def commit(folder):
    """Commits everything in `folder` and gives the commit's hash."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "m"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def files(folder):
    """Without git's."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if ".git" not in path.parts)


def test_the_recorded_commit_is_unpacked_and_the_repository_left_alone(workspace, tmp_path):
    recorded = commit(workspace)
    (workspace / "src" / "a.py").write_text("edited since\n")
    (workspace / "new.py").write_text("new\n")
    copied = copy_workspace(workspace, recorded, tmp_path / "copy")
    assert (tmp_path / "copy" / "src" / "a.py").read_text() == "committed\n"
    assert files(copied.folder) == ["src/a.py"]
    assert copied.description == f"commit {recorded[:12]} in a clone"
    worktrees = subprocess.run(["git", "worktree", "list"], cwd=workspace, check=True, capture_output=True, text=True)
    assert len(worktrees.stdout.splitlines()) == 1


def test_a_workspace_within_a_repository_is_only_its_own_part(workspace, tmp_path):
    recorded = commit(workspace)
    assert files(copy_workspace(workspace / "src", recorded, tmp_path / "copy").folder) == ["a.py"]


def test_without_a_recorded_commit_the_files_are_copied_and_that_is_reported(workspace, tmp_path):
    commit(workspace)
    for name in (".venv/bin/python", "src/__pycache__/a.pyc", "src/b.py"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
    copied = copy_workspace(workspace, None, tmp_path / "copy")
    assert files(copied.folder) == ["src/a.py", "src/b.py"]
    assert copied.description == "a copy of your current files (no git commit recorded)"


@pytest.mark.parametrize("of", ["another repository", "no repository"])
def test_a_folder_without_the_recorded_commit_is_refused_in_one_sentence(of, workspace, tmp_path):
    if of == "another repository":
        commit(workspace)
    with pytest.raises(ReplayError) as caught:
        copy_workspace(workspace, "d" * 40, tmp_path / "copy")
    assert str(caught.value) == (
        f"Workspace folder {workspace} does not contain the recorded commit dddddddddddd.\n"
        "Give the folder of that repository: kin-nb replay --workspace PATH"
    )


def test_without_git_the_files_are_copied_and_that_is_reported(workspace, tmp_path, monkeypatch):
    recorded = commit(workspace)
    (workspace / "src" / "a.py").write_text("edited since\n")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    copied = copy_workspace(workspace / "src", recorded, tmp_path / "copy")
    assert copied.description == f"a copy of your current files (git is not installed, so not commit {recorded[:12]})"
    assert (copied.folder / "a.py").read_text() == "edited since\n"


def test_a_workspace_too_large_is_refused_before_anything_is_copied(workspace, tmp_path):
    with pytest.raises(ReplayError, match=r"too large to copy \(over 0 files"):
        copy_workspace(workspace, None, tmp_path / "copy", CopyLimit(files=0))
    assert files(tmp_path / "copy") == []


def test_the_folder_with_the_keys_is_not_copied(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(workspace / ".kin-code"))
    (workspace / ".kin-code").mkdir()
    (workspace / ".kin-code" / ".env").write_text("KEY=x")
    assert files(copy_workspace(workspace, None, tmp_path / "copy").folder) == ["src/a.py"]


def test_a_workspace_that_is_gone_says_how_to_name_another(tmp_path):
    with pytest.raises(ReplayError, match="--workspace PATH"):
        copy_workspace(tmp_path / "gone", None, tmp_path / "copy")


def test_a_named_pipe_is_left_out(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.py").write_text("x = 1\n")
    os.mkfifo(workspace / "pipe")
    copied = copy_workspace(workspace, None, tmp_path / "copy")
    assert [path.name for path in copied.folder.iterdir()] == ["a.py"]


@pytest.mark.parametrize(
    "settings",
    [
        {"filter.x.smudge": "touch CANARY; cat"},
        {"filter.x.process": "touch CANARY"},
        {"core.fsmonitor": "touch CANARY; true", "core.hooksPath": "hooks"},
        {"diff.x.textconv": "touch CANARY; cat", "tar.tar.command": "touch CANARY; cat", "core.pager": "touch CANARY"},
        {"extensions.partialClone": "o", "remote.o.promisor": "true", "remote.o.url": "ext::touch CANARY"},
        {"core.worktree": "/"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_strangers_repository_runs_nothing(settings, workspace, tmp_path):
    canary = tmp_path / "canary"
    (workspace / ".gitattributes").write_text("* filter=x diff=x\n")
    recorded = commit(workspace)
    hook = workspace / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    (workspace / "src" / "a.py").write_text("edited since\n")
    for key, value in settings.items():
        command = ["git", "config", key, value.replace("CANARY", str(canary))]
        subprocess.run(command, cwd=workspace, check=True)
    copied = copy_workspace(workspace, recorded, tmp_path / "copy")
    assert (copied.folder / "src" / "a.py").read_text() == "committed\n"
    assert not canary.exists()


@pytest.fixture(params=["as they are", "commit"])
def copied(request, tmp_path):
    """A function: the copy of a folder, by both ways."""

    def copy(folder):
        recorded = commit(folder) if request.param == "commit" else None
        return copy_workspace(folder, recorded, tmp_path / "elsewhere" / "copy")

    return copy


@pytest.mark.parametrize(
    "target",
    [
        *("{workspace}/src", "src", "./src/../src", "../project/src", "../by-name/src", "{workspace}/../by-name/src"),
        *("../alias", "{workspace}/../alias"),
    ],
)
def test_a_link_into_the_workspace_leads_into_the_copy(workspace, copied, target):
    (workspace.parent / "by-name").symlink_to(workspace)
    (workspace.parent / "alias").symlink_to(workspace / "src")
    (workspace / "current").symlink_to(target.format(workspace=workspace))
    (workspace / "deep").mkdir()
    (workspace / "deep" / "latest").symlink_to(f"{workspace}/current")
    copy = copied(workspace).folder
    (copy / "current" / "a.py").write_text("changed\n")
    assert (copy / "src" / "a.py").read_text() == "changed\n"
    assert (copy / "deep" / "latest" / "a.py").read_text() == "changed\n"
    assert (workspace / "src" / "a.py").read_text() == "committed\n"


def test_a_link_that_goes_out_by_another_link_and_comes_back_leads_into_the_copy(workspace, copied, tmp_path):
    (tmp_path / "outside").mkdir()
    (workspace / "out").symlink_to(tmp_path / "outside")
    (workspace / "current").symlink_to("out/../project/src")
    copy = copied(workspace).folder
    (copy / "current" / "a.py").write_text("changed\n")
    assert (copy / "src" / "a.py").read_text() == "changed\n"
    assert (workspace / "src" / "a.py").read_text() == "committed\n"


def test_a_link_that_leads_out_stays_in_files_as_they_are_and_is_named_where_a_commit_has_it(workspace, tmp_path):
    (workspace / "data").symlink_to("/usr/share")
    (workspace / "round").symlink_to("round")
    files_as_they_are = copy_workspace(workspace, None, tmp_path / "one").folder
    assert [str((files_as_they_are / name).readlink()) for name in ("data", "round")] == ["/usr/share", "round"]
    recorded = commit(workspace)
    copy = copy_workspace(workspace, recorded, tmp_path / "two")
    assert not (copy.folder / "data").is_symlink()
    assert "without links that lead out of it: data" in copy.description
    assert (copy.folder / "src" / "a.py").is_file()


@pytest.mark.parametrize(
    "name", ["there\x1b]0;title\x07\x1b[2J", "a\nb", "x" * 2000, "\ud800"], ids=["obeyed", "lines", "long", "surrogate"]
)
def test_a_workspace_of_any_name_is_missed_in_one_line(name, tmp_path):
    with pytest.raises(ReplayError, match=r"not found\.\nGive it: kin-nb replay --workspace") as caught:
        copy_workspace(tmp_path / name, None, tmp_path / "copy")
    said = str(caught.value)
    assert all(map(str.isprintable, said.splitlines()))
    assert len(said) < 600


def test_what_cannot_be_copied_is_reported_in_one_line(workspace, tmp_path):
    deep = workspace
    while len(str(deep)) < os.pathconf("/", "PC_PATH_MAX") - 200:
        deep /= "\x1b[2J" + "d" * 90
    deep.mkdir(parents=True)
    with pytest.raises(ReplayError, match="cannot be copied") as caught:
        copy_workspace(workspace, None, tmp_path / ("c" * 250))  # where paths are too long
    said = str(caught.value)
    assert all(map(str.isprintable, said.splitlines()))
    assert len(said) < 1200


def test_a_copy_made_below_the_workspace_is_not_copied_into_itself(workspace):
    copied = copy_workspace(workspace, None, workspace / "tmp" / "copy")
    assert files(copied.folder) == ["src/a.py"]


@pytest.mark.parametrize("linked", ["home", "folder"])
def test_the_folder_with_the_keys_is_not_copied_where_a_link_leads_to_it(linked, workspace, tmp_path, monkeypatch):
    keys = workspace / "deep" / "keys" / ".env"
    keys.parent.mkdir(parents=True)
    keys.write_text("KEY=x")
    if linked == "home":
        (tmp_path / "home").symlink_to(workspace / "deep")
        monkeypatch.setenv("KIN_HOME", str(tmp_path / "home" / "keys"))
    else:
        (workspace / ".kin-code").symlink_to(keys.parent)
        monkeypatch.setenv("KIN_HOME", str(workspace / ".kin-code"))
    folder = copy_workspace(workspace, None, tmp_path / "copy").folder
    assert files(folder) == ["src/a.py"]
    assert sorted(path.name for path in folder.iterdir()) == ["deep", "src"]
