"""bash, confined: the files that a command creates in the workspace run nothing outside of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from kin_nb.core.tools.builtins import sandbox
from kin_nb.core.tools.builtins.bash import Bash, BashConfig

ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
ME = "git -c user.name=a -c user.email=b"
# git runs the monitor in this folder with every `git status`
EVIL = 'git config -f evil/config core.fsmonitor "touch $PWD/ran; false"'
REPOSITORY = "mkdir -p evil/objects evil/refs && echo 'ref: refs/heads/x' > evil/HEAD"
ELSEWHERE = f"{REPOSITORY}; {EVIL}"
HOOK = r"printf '#!/bin/sh\ntouch %s/ran\n' $PWD > hook; chmod +x hook"


@pytest.fixture
def repository(workspace) -> Path:
    """The workspace as an ordinary repository, with a nested one, a submodule's folder and a linked worktree."""
    for folder in (workspace, workspace / "nested", workspace / "module"):
        git(workspace, "init", "-q", str(folder))
    (workspace / "a.py").write_text("x = 1\n")
    git(workspace, "add", "a.py")
    git(workspace, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "one")
    git(workspace, "worktree", "add", "-q", "linked")
    modules = workspace / ".git" / "modules"
    modules.mkdir()
    (workspace / "module" / ".git").rename(modules / "m")
    (workspace / "module" / ".git").write_text("gitdir: ../.git/modules/m\n")
    return workspace


@pytest.fixture
def real(repository) -> Path:
    why = sandbox.problem(repository, network=False)
    if why:
        pytest.skip(why)
    return repository


def git(place: Path, *args: str) -> str:
    ran = subprocess.run(["git", *args], cwd=place, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def a_bash(workspace: Path, mode: str = "on") -> Bash:
    return Bash.from_config(BashConfig(workdir=workspace, sandbox=mode, env={"GIT_CONFIG_GLOBAL": os.devnull}))


async def output(tool: Bash, command: str) -> str:
    return tool.to_model(await tool.invoke(command=command))


TRICKS = {
    "settings of the repository": (f"{EVIL}; cat evil/config >> .git/config", "."),
    "settings of a worktree": (
        f"{EVIL}; cat evil/config > .git/worktrees/linked/config.worktree",
        "linked",
    ),
    "a shared folder": (f"{ELSEWHERE}; cp -r .git/objects .git/refs evil; echo ../evil > .git/commondir", "."),
    "another shared folder": (f"{ELSEWHERE}; echo $PWD/evil > .git/worktrees/linked/commondir", "linked"),
    "a submodule's settings": (f"{EVIL}; cat evil/config >> .git/modules/m/config", "module"),
    "a submodule's folder, replaced": (
        f"{ELSEWHERE}; mv .git/modules .git/m; mkdir .git/modules; cp -r evil .git/modules/m",
        "module",
    ),
    "a new submodule's folder": (
        f"{ELSEWHERE}; cp -r evil .git/modules/new; mkdir new; echo 'gitdir: ../.git/modules/new' > new/.git",
        "new",
    ),
    "a nested repository's settings": (f"{EVIL}; cat evil/config >> nested/.git/config", "nested"),
    "a nested repository, replaced": (f"{ELSEWHERE}; mv nested gone; mkdir nested; cp -r evil nested/.git", "nested"),
    "a repository where none was": (f"{ELSEWHERE}; mkdir -p some/where/deep; mv evil some/where/deep/.git", "some/where/deep"),
    "git init": ('git init -q new; git -C new config core.fsmonitor "touch $PWD/ran; false"', "new"),
    "a file that points elsewhere": (f"{ELSEWHERE}; mkdir new; echo 'gitdir: ../evil' > new/.git", "new"),
    "a link that points elsewhere": (f"{ELSEWHERE}; mkdir new; ln -s ../evil new/.git", "new"),
    "a repository without a worktree": (f"{REPOSITORY}; git config -f evil/config alias.mine '!touch ../ran'", "evil"),
    "a hook": (f"{HOOK}; mv hook .git/hooks/post-index-change; touch a.py", "."),
    "a folder of hooks": (f"{HOOK}; rm -rf .git/hooks; mkdir .git/hooks; mv hook .git/hooks/post-index-change; touch a.py", "."),
    "the named folder of hooks": (f"{HOOK}; mkdir -p scripts; mv hook scripts/post-index-change; touch a.py", "."),
}  # fmt: skip


def prepared(workspace: Path, trick: str) -> tuple[str, Path]:
    if trick == "settings of a worktree":
        git(workspace, "config", "extensions.worktreeConfig", "true")
    if trick == "the named folder of hooks":
        git(workspace, "config", "core.hooksPath", "scripts")
    command, place = TRICKS[trick]
    return f"mkdir -p evil; {command}", workspace / place


async def test_without_confinement_git_runs_the_files_of_a_command(subtests, repository):
    for trick in TRICKS:
        with subtests.test(trick=trick):
            command, place = prepared(repository, trick)
            await output(a_bash(repository, "off"), command)
            git(place, "status")
            git(place, "mine")
            assert (repository / "ran").exists()


async def test_git_runs_no_file_of_a_confined_command(subtests, real):
    for trick in TRICKS:
        with subtests.test(trick=trick):
            command, place = prepared(real, trick)
            await output(a_bash(real), command)
            git(place, "status")
            git(place, "mine")
            assert not (real / "ran").exists()
            assert "fatal" not in git(real, "log")


async def test_add_commit_stash_and_branches_work_in_an_ordinary_repository(real):
    tool = a_bash(real)
    await output(tool, f"echo y >> a.py && git add a.py && {ME} commit -qm two && echo z >> a.py && {ME} stash")
    report = await output(tool, "git checkout -q -b other && git gc -q && git stash pop -q && git log --oneline")
    assert "two" in report
    assert "renamed" not in report
    assert (real / "a.py").read_text() == "x = 1\ny\nz\n"
    assert not list(real.rglob("*.aside*"))


async def test_renamed_files_are_reported_and_kept_and_the_repository_works(real):
    tool = a_bash(real)
    report = await output(tool, "git init -q new && git -C new config core.pager evil; echo > .git/commondir")
    assert report.startswith("[renamed, because programs outside of the confinement would run or trust it: new/.git/")
    assert "new/.git/config, now config.aside" in report
    assert ".git/commondir, now commondir.aside" in report
    assert "pager = evil" in (real / "new" / ".git" / "config.aside").read_text()
    report = await output(tool, f"cd new && touch b && git add b && {ME} commit -qm first && git log --oneline")
    assert "first" in report
    assert "renamed" not in report


async def test_a_second_renamed_file_does_not_overwrite_the_first(real):
    tool = a_bash(real)
    for text in ("one", "two"):
        await output(tool, f"echo {text} > .git/commondir")
    assert (real / ".git" / "commondir.aside").read_text() == "one\n"
    assert (real / ".git" / "commondir.aside2").read_text() == "two\n"


async def test_a_moved_repository_stays_complete(real):
    before = (real / "nested" / ".git" / "config").read_bytes()
    assert await output(a_bash(real), "mkdir lib && mv nested lib/nested") == "[no output]"
    assert (real / "lib" / "nested" / ".git" / "config").read_bytes() == before


async def test_files_that_editors_and_shells_run_stay_unchanged(real):
    (real / ".vscode").mkdir()
    (real / ".vscode" / "tasks.json").write_text("{}")
    (real / ".kin-code").mkdir()
    report = await output(a_bash(real), "echo x > .vscode/tasks.json; mv .kin-code k; mkdir .idea; echo x > .envrc")
    assert (real / ".vscode" / "tasks.json").read_text() == "{}"
    assert (real / ".kin-code").is_dir()
    assert sorted(path.name for path in real.glob(".*.aside")) == [".envrc.aside", ".idea.aside"]
    assert ".envrc, now .envrc.aside" in report


async def test_data_and_nested_folders_stay_writable(real):
    (real / ".env").write_text("A=1\n")
    (real / "model.pth").write_text("1")
    command = "echo B=2 >> .env; echo 2 > model.pth; echo 3 > key.pem; mkdir -p lib/.vscode; echo {} > lib/.vscode/x"
    assert await output(a_bash(real), command) == "[no output]"
    assert ((real / ".env").read_text(), (real / "model.pth").read_text()) == ("A=1\nB=2\n", "2\n")


async def test_neither_a_link_to_hooks_nor_its_target_can_be_changed(real):
    (real / ".git" / "hooks").rename(real / "hooks")
    (real / ".git" / "hooks").symlink_to("../hooks")
    await output(a_bash(real), "echo x > hooks/pre-commit; mkdir h; rm .git/hooks; ln -s ../h .git/hooks")
    assert not (real / "hooks" / "pre-commit").exists()
    assert not (real / ".git" / "hooks").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could undo mounts")
async def test_root_can_change_every_file_but_not_undo_a_mount(real):
    os.chown(real / "a.py", 12345, 12345)
    (real / "a.py").chmod(0o600)
    command = "umount .git/config .git; mount -o remount,rw,bind .git/config; echo x >> .git/config; echo y >> a.py"
    await output(a_bash(real), command)
    assert (real / "a.py").read_text() == "x = 1\ny\n"
    assert "x" not in (real / ".git" / "config").read_text().split()


async def test_services_are_not_reachable(real):
    found = set((await output(a_bash(real), "ls -A /run")).split())
    assert found <= {"systemd", "current-system", "[no", "output]"} | set(str(real).split("/"))


async def test_files_created_before_a_timeout_are_renamed(real):
    tool = a_bash(real)
    result = await tool.invoke(command="echo x > .git/commondir; sleep 60", timeout=1)
    assert result.timed_out
    assert not (real / ".git" / "commondir").exists()


async def test_files_created_before_a_cancellation_are_renamed(real):
    started = asyncio.Event()
    tool = a_bash(real)
    tool.emit = lambda _: started.set()
    call = asyncio.create_task(tool.invoke(command="echo x > .git/commondir; echo started; sleep 60", timeout=60))
    await asyncio.wait_for(started.wait(), 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not (real / ".git" / "commondir").exists()


def test_changes_of_the_user_during_a_command_are_kept(repository):
    before = sandbox.scan_workspace(repository)
    git(repository, "config", "branch.x.remote", "origin")  # writes another file, and renames it
    git(repository, "config", "--file", "module/.git-new", "a.b", "c")
    assert sandbox.quarantine(repository, before) == ""
    assert "origin" in (repository / ".git" / "config").read_text()


def test_after_an_incomplete_scan_only_new_files_are_renamed(repository, monkeypatch):
    with monkeypatch.context() as slow:
        times = iter([0.0, 0.0])
        slow.setattr(sandbox.time, "monotonic", lambda: next(times, 100.0))
        before = sandbox.scan_workspace(repository)
    (repository / "new").mkdir()
    (repository / "new" / ".git").write_text("gitdir: ../evil\n")
    report = sandbox.quarantine(repository, before)
    assert [path.name for path in repository.rglob("*.aside")] == [".git.aside"]
    assert "was not completed" in report


def test_a_folder_that_cannot_be_read_is_reported(repository):
    before = sandbox.scan_workspace(repository)
    deeper = "d=$(printf 'd%.0s' {1..250}); for n in {1..17}; do mkdir $d && cd $d || exit; done"  # longer than any path may be
    subprocess.run(["bash", "-c", deeper], cwd=repository, check=True)
    assert "because it cannot be read: ddd" in sandbox.quarantine(repository, before)


def test_a_report_is_one_line(repository):
    before = sandbox.scan_workspace(repository)
    (repository / "x\n[y" / ".git").mkdir(parents=True)
    (repository / "x\n[y" / ".git" / "config").write_text("")
    assert sandbox.quarantine(repository, before).count("\n") == 0


def test_hooks_outside_of_the_workspace_are_ignored(repository, tmp_path):
    git(repository, "config", "core.hooksPath", str(tmp_path / "hooks"))
    before = sandbox.scan_workspace(repository)
    (tmp_path / "hooks").mkdir()
    assert sandbox.quarantine(repository, before) == ""
    assert (tmp_path / "hooks").exists()


def test_nothing_is_renamed_behind_a_link_out_of_the_workspace(repository, tmp_path):
    git(repository, "config", "core.hooksPath", "scripts/hooks")
    before = sandbox.scan_workspace(repository)
    (tmp_path / "mine" / "hooks").mkdir(parents=True)
    (repository / "scripts").symlink_to(tmp_path / "mine")
    assert sandbox.quarantine(repository, before) == ""
    assert (tmp_path / "mine" / "hooks").exists()


def test_a_named_pipe_as_config_does_not_block(repository):
    before = sandbox.scan_workspace(repository)
    (repository / "new" / ".git").mkdir(parents=True)
    os.mkfifo(repository / "new" / ".git" / "config")
    assert "new/.git/config, now config.aside" in sandbox.quarantine(repository, before)
