"""The copy's own repository: git works in it as it did in the original, which nothing in it can change."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.workspace_copy import CopyLimit, copy_workspace

EVIL = "#!/bin/sh\ntouch {canary}\ncat\n"


def git(folder, *argv, check=True):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    argv = ["git", *identity, *argv]
    done = subprocess.run(argv, cwd=folder, env=environment, check=check, capture_output=True, text=True)
    return done.stdout.rstrip("\n")


def commit(folder, message="m"):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message, "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


def contents(folder):
    """Of every file in it, and where links lead."""
    return {
        str(path): str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def make_project(folder):
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("x = 1\n")
    git(folder, "init", "-q", "-b", "trunk")
    return folder


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A project with one commit, and its id: made once, copied by each test."""
    folder = make_project(tmp_path_factory.mktemp("committed") / "project")
    return folder, commit(folder)


@pytest.fixture
def recorded(project, committed):
    folder, made = committed
    shutil.rmtree(project / ".git")
    shutil.copytree(folder / ".git", project / ".git", symlinks=True)
    return made


def test_git_says_what_it_said_then(project, recorded, tmp_path):
    (project / ".git" / "info" / "exclude").write_text("*.log\n")
    git(project, "tag", "v1")
    git(project, "branch", "other")
    git(project, "config", "status.short", "true")
    git(project, "config", "user.name", "Ann")
    commit(project, "later")
    (project / "src" / "a.py").write_text("uncommitted\n")
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    (copy / "x.log").write_text("ignored\n")
    assert git(copy, "status") == ""
    assert git(copy, "log", "--format=%H %D") == f"{recorded} HEAD -> trunk, tag: v1, other"
    assert git(copy, "describe", "--tags") == "v1"
    (copy / "src" / "a.py").write_text("x = 2\n")
    assert "+x = 2" in git(copy, "diff")
    assert git(copy, "status") == " M src/a.py"
    named_by_nobody = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "-c", "user.email=a@b", "commit", "-qam", "n"], cwd=copy, check=True, env=named_by_nobody)
    assert git(copy, "log", "-1", "--format=%an %s") == "Ann n"


def test_no_git_command_changes_the_original(project, recorded, tmp_path):
    later = commit(project, "later")
    git(project, "tag", "v1")
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    before = contents(project)
    (copy / "src" / "a.py").write_text("x = 2\n")
    for line in (
        ["commit", "-qam", "n"],
        ["branch", "-f", "other", later],
        ["tag", "-d", "v1"],
        ["checkout", "-q", "-b", "more", later],
        ["reset", "-q", "--hard", recorded],
        ["gc", "-q", "--prune=now", "--aggressive"],
        ["repack", "-qadf"],
        ["prune"],
        ["config", "core.bare", "false"],
        ["worktree", "add", "-q", "../third"],
        ["update-ref", "-d", "refs/heads/trunk"],
        ["stash"],
    ):
        git(copy, *line)
    git(copy, "push", "origin", "more", check=False)
    git(copy, "fetch", "--all", check=False)
    assert contents(project) == before
    shared = {path.stat().st_ino for path in copy.rglob("*") if path.is_file()}
    assert not shared & {path.stat().st_ino for path in project.rglob("*") if path.is_file()}, "no hard links"


def test_remotes_lead_nowhere_and_the_followed_branch_is_where_it_was(project, recorded, tmp_path):
    git(tmp_path, "clone", "-q", str(project), "clone")
    commit(project, "later")
    clone = tmp_path / "clone"
    git(clone, "pull", "-q")
    copy = copy_workspace(clone, recorded, tmp_path / "copy").folder
    assert git(copy, "status", "-sb") == "## trunk...origin/trunk"
    assert "remotes/origin/HEAD -> origin/trunk" in git(copy, "branch", "-a")
    assert {line.split()[1] for line in git(copy, "remote", "-v").splitlines()} == {"/dev/null"}
    assert str(project) not in (copy / ".git" / "config").read_text()


@pytest.mark.parametrize(
    ("at", "expected"), [("main", "main"), ("detached", "main"), ("elsewhere", "main"), ("ci", "main")]
)
def test_the_branch_is_one_that_has_the_commit(at, expected, project, recorded, tmp_path):
    git(project, "branch", "-m", "main")
    if at == "detached":
        git(project, "checkout", "-q", "--detach")
    elif at == "elsewhere":
        git(project, "branch", "also")
        git(project, "checkout", "-q", "--orphan", "fresh")
        commit(project, "fresh")
    elif at == "ci":  # as actions/checkout leaves it
        git(project, "update-ref", "refs/remotes/origin/main", recorded)
        git(project, "checkout", "-q", "--detach")
        git(project, "branch", "-D", "main")
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    assert git(copy, "branch", "--show-current") == expected
    assert git(copy, "rev-parse", "HEAD") == recorded


@pytest.mark.parametrize("where", ["here", "in a clone", "deleted since", "further on", "checked out elsewhere"])
def test_the_recorded_branch_is_the_one_that_the_copy_is_on(where, project, recorded, tmp_path):
    git(project, "branch", "topic/one")
    if where == "in a clone":
        git(tmp_path, "clone", "-q", str(project), "clone")
        project = tmp_path / "clone"
        assert git(project, "branch") == "* trunk"
    elif where == "deleted since":
        git(project, "branch", "-D", "topic/one")
    elif where == "further on":
        git(project, "checkout", "-q", "topic/one")
        commit(project, "later")
        git(project, "checkout", "-q", "trunk")
    elif where == "checked out elsewhere":
        git(project, "worktree", "add", "-q", str(tmp_path / "side"), "topic/one")
    copy = copy_workspace(project, recorded, tmp_path / "copy", branch="topic/one").folder
    assert git(copy, "status") == "On branch topic/one\nnothing to commit, working tree clean"
    assert git(copy, "rev-parse", "HEAD", "topic/one").split() == [recorded, recorded]
    git(copy, "commit", "-q", "--allow-empty", "-m", "n")


def test_a_detached_head_stays_detached(project, recorded, tmp_path):
    copy = copy_workspace(project, recorded, tmp_path / "copy", branch="").folder
    assert git(copy, "status") == f"HEAD detached at {recorded[:7]}\nnothing to commit, working tree clean"
    assert git(copy, "rev-parse", "HEAD") == recorded
    assert git(copy, "branch", "--show-current") == ""


@pytest.mark.parametrize(("now", "then"), [("topic/one", "topic"), ("topic", "topic/one")])
def test_a_branch_that_leaves_no_room_for_the_recorded_one_came_later(now, then, project, recorded, tmp_path):
    git(project, "branch", now)
    copy = copy_workspace(project, recorded, tmp_path / "copy", branch=then).folder
    git(copy, "commit", "-q", "--allow-empty", "-m", "n")
    assert git(copy, "branch", "--format=%(refname:short)").split() == sorted([then, "trunk"])


def test_a_commit_that_no_branch_has_any_more_is_there_all_the_same(project, recorded, tmp_path):
    git(project, "commit", "-q", "--amend", "-m", "other")
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    assert git(copy, "log", "--format=%H %D") == f"{recorded} HEAD -> trunk"


def test_a_shallow_clone_is_enough(project, recorded, tmp_path):
    commit(project, "two")
    last = commit(project, "three")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", "clone")
    copy = copy_workspace(tmp_path / "clone", last, tmp_path / "copy").folder
    assert git(copy, "log", "--format=%s") == "three"
    with pytest.raises(ReplayError, match="does not contain the recorded commit"):
        copy_workspace(tmp_path / "clone", recorded, tmp_path / "copy2")


def test_a_workspace_within_a_repository_has_the_repository_around_it(project, tmp_path):
    (project / "top.txt").write_text("top\n")
    copied = copy_workspace(project / "src", commit(project), tmp_path / "copy")
    assert copied.folder == tmp_path / "copy" / "src"
    assert (tmp_path / "copy" / "top.txt").is_file()
    assert git(copied.folder, "rev-parse", "--show-prefix") == "src/"


def test_of_a_repository_that_is_too_large_only_the_workspace_is_unpacked(project, tmp_path):
    for number in range(20):
        (project / f"{number}.txt").write_text("x")
    recorded = commit(project)
    copied = copy_workspace(project / "src", recorded, tmp_path / "copy", CopyLimit(files=10))
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [".git", "src"]
    assert "in src alone, since the whole is over 10 files" in copied.description
    assert git(copied.folder, "status", "--short") == ""
    with pytest.raises(ReplayError, match=r"too large to copy \(over 10 files"):
        copy_workspace(project, recorded, tmp_path / "copy2", CopyLimit(files=10))


def test_links_that_are_fixed_or_left_out_are_no_changes(project, tmp_path):
    (project / "inward").symlink_to(project / "src")
    (project / "out").symlink_to("/usr/share")
    copy = copy_workspace(project, commit(project), tmp_path / "copy").folder
    assert sorted(path.name for path in copy.iterdir()) == [".git", "inward", "src"]
    assert (copy / "inward").resolve() == copy / "src"
    assert git(copy, "status", "--short") == ""


@pytest.mark.parametrize("name", ["with\nline end", 'with "quotes"', "#comment", "ünï", "sp ace"])
def test_a_repository_of_any_name_is_borrowed_from(name, project, recorded, tmp_path):
    named = project.rename(tmp_path / name)
    copy = copy_workspace(named, recorded, tmp_path / "copy").folder
    assert git(copy, "status", "--short") == ""


def test_a_person_whom_git_does_not_know_can_commit(project, recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(project, "config", "--global", "user.useConfigOnly", "true")
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "n"], cwd=copy, check=True)


# Strangers' repositories.


@pytest.fixture
def evil(tmp_path):
    program = tmp_path / "evil"
    program.write_text(EVIL.format(canary=tmp_path / "canary"))
    program.chmod(0o755)
    return str(program)


def settings_of(evil):
    return {
        **{f"core.{key}": evil for key in ("fsmonitor", "sshCommand", "pager", "editor", "askPass", "gitProxy")},
        **{f"filter.x.{key}": evil for key in ("clean", "smudge", "process")},
        "filter.x.required": "true",
        "diff.x.textconv": evil,
        "diff.external": evil,
        "merge.x.driver": f"{evil} %A",
        "core.hooksPath": "hooks",
        "gpg.program": evil,
        "commit.gpgSign": "true",
        "credential.helper": f"!{evil}",
        "remote.origin.url": f"ext::{evil}",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "submodule.x.update": f"!{evil}",
        "uploadpack.packObjectsHook": evil,
        "core.alternateRefsCommand": evil,
        "user.email": 't@example.org"\n[core]\n\tfsmonitor = evil',
        "branch.trunk.remote": evil,
        "core.worktree": "/",
    }


def test_no_setting_or_hook_of_the_original_runs_in_the_making_or_in_the_copy(project, evil, tmp_path):
    (project / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (project / "hooks").mkdir()
    (project / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = ext::{evil}\n\tupdate = !{evil}\n')
    for name in (
        "pre-commit",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "fsmonitor-watchman",
    ):
        for folder in (project / "hooks", project / ".git" / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(EVIL.format(canary=tmp_path / "canary"))
            (folder / name).chmod(0o755)
    recorded = commit(project)
    (tmp_path / "canary").unlink(missing_ok=True)  # our own hooks were in force just now
    config = project / ".git" / "config"
    for key, value in settings_of(evil).items():
        git(project, "config", "--file", str(config), key, value)
    (tmp_path / "included").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    git(project, "config", "--file", str(config), "include.path", str(tmp_path / "included"))
    before = contents(project)
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    (copy / "src" / "a.py").write_text("x = 2\n")
    for line in (["status"], ["diff"], ["commit", "-qam", "n"], ["log", "-p"], ["checkout", "-q", "-b", "b"]):
        git(copy, *line)
    git(copy, "fetch", "--all", check=False)
    git(copy, "push", check=False)
    git(copy, "submodule", "update", "--init", check=False)
    assert not (tmp_path / "canary").exists()
    assert contents(project) == before
    values = (copy / ".git" / "config").read_text()
    assert evil not in values
    assert git(copy, "config", "core.fsmonitor") == "false"
    git(project, "status", check=False)
    assert (tmp_path / "canary").exists(), "or there was nothing to run"


def test_a_submodule_is_an_empty_folder(project, evil, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other)
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "part")
    recorded = commit(project)
    inner = project / ".git" / "modules" / "part"
    git(inner, "config", "core.fsmonitor", evil)
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    assert list((copy / "part").iterdir()) == []
    assert git(copy, "status", "--short") == ""
    assert not (tmp_path / "canary").exists()


def test_a_linked_worktree_is_read_by_its_git_file(project, recorded, evil, tmp_path):
    git(project, "worktree", "add", "-q", str(tmp_path / "side"), "-b", "side")
    git(project, "config", "core.fsmonitor", evil)
    copy = copy_workspace(tmp_path / "side", recorded, tmp_path / "copy").folder
    assert (copy / ".git").is_dir()
    assert git(copy, "branch", "--show-current") == "side"
    assert not (tmp_path / "canary").exists()


def test_a_bare_repository_is_no_workspace_with_a_commit(project, recorded, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", str(project), "bare.git")
    with pytest.raises(ReplayError, match="does not contain the recorded commit"):
        copy_workspace(tmp_path / "bare.git", recorded, tmp_path / "copy")


def test_a_folder_that_looks_like_a_bare_repository_is_only_files(project, evil, tmp_path):
    bare = project / "bare"
    (bare / "refs").mkdir(parents=True)
    (bare / "objects").mkdir()
    (bare / "refs" / "keep").write_text("")
    (bare / "objects" / "keep").write_text("")
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text(f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {evil}\n")
    copy = copy_workspace(project, commit(project), tmp_path / "copy").folder
    assert git(copy, "status", "--short") == ""
    assert (copy / "bare" / "config").is_file()
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "name", ["../../../escaped", "refs/heads/../../../../escaped", "refs/heads/a b", "refs/heads/x.lock"]
)
def test_a_reference_of_a_wrong_name_is_left_out(name, project, recorded, tmp_path):
    with (project / ".git" / "packed-refs").open("a") as file:
        file.write(f"{recorded} {name}\n{'e' * 40} refs/heads/gone\n")
    remote = project / ".git" / "refs" / "remotes" / "origin"
    remote.mkdir(parents=True)
    (remote / "HEAD").write_text(f"ref: {name}\n")
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    assert git(copy, "branch", "-a") == "* trunk"
    assert not list(tmp_path.glob("**/escaped"))


@pytest.mark.parametrize(
    "name", ["HEAD", "config", "packed-refs", "shallow", "info/exclude", "refs/heads/pipe", "commondir"]
)
def test_a_pipe_in_the_place_of_a_file_of_git_is_not_waited_for(name, project, recorded, tmp_path):
    path = project / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    copy = copy_workspace(project, recorded, tmp_path / "copy").folder
    assert (copy / "src" / "a.py").is_file()


@pytest.mark.parametrize("text", ["\0", "x" * 5000, "../" * 2000, "\x1b[2J\n"], ids=["NUL", "long", "up", "terminal"])
@pytest.mark.parametrize("name", [".git", ".git/commondir"])
def test_a_git_folder_that_is_nonsense_is_no_repository(name, text, project, recorded, tmp_path):
    if name == ".git":
        (project / ".git").rename(tmp_path / "was")
        (project / ".git").write_text(f"gitdir: {text}")
    else:
        (project / ".git" / "commondir").write_text(f"x{text}")
    if (name, text) == (".git/commondir", "\0"):  # as if it were not there
        assert copy_workspace(project, recorded, tmp_path / "copy").folder.is_dir()
        return
    with pytest.raises(ReplayError) as caught:
        copy_workspace(project, recorded, tmp_path / "copy")
    assert all(map(str.isprintable, str(caught.value).splitlines()))


def test_files_have_the_modes_of_git(project, tmp_path):
    (project / "run").write_text("#!/bin/sh\n")
    (project / "run").chmod(0o4777)
    copy = copy_workspace(project, commit(project), tmp_path / "copy").folder
    assert stat.S_IMODE((copy / "run").stat().st_mode) & ~0o022 == 0o755
