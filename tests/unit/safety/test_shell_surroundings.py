"""What lies around a command: git's settings in the repository, programs on PATH, special files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kin_nb.core.safety.shell import classify
from kin_nb.core.safety.shell.read_only.working_dir import read_only_environment
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.bash import Bash, BashConfig
from tests.unit.safety import shell_workspace


@pytest.fixture
def root(tmp_path) -> Path:
    return shell_workspace.make(tmp_path.resolve())


@pytest.fixture
def environment(root) -> dict[str, str]:
    return shell_workspace.environment(root.parent / "home")


def program(path: Path, text: str = "touch ran") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def configure(root: Path, text: str) -> None:
    with (root / ".git" / "config").open("a") as file:
        file.write(text)


def test_a_monitor_that_git_would_run_makes_git_unproven(root, environment):
    program(root / "monitor")
    configure(root, "[core]\n\tfsmonitor = ./monitor\n")
    judgement = classify("git status", root, environment)
    assert (judgement.kind, judgement.reason) == (
        "unknown",
        "git's settings in .git set core.fsmonitor, which may run a program",
    )
    subprocess.run(["git", "status"], cwd=root, env=environment, check=True, capture_output=True)
    assert (root / "ran").exists()  # git does run it


UNKNOWN_GIT_SETTINGS = [
    '[filter "x"]\n\tclean = ./x\n',
    '[FILTER "x"]\n\tprocess = ./x\n',
    "[diff]\n\texternal = ./x\n",
    '[diff "x"]\n\ttextconv = ./x\n',
    "[core]\n\tpager = ./x\n",
    "[core]\n\tsshCommand = ./x\n",
    "[core]\n\tworktree = /\n",
    "[include]\n\tpath = ../x\n",
    '[includeIf "gitdir:/"]\n\tpath = x\n',
    "[pager]\n\tstatus = ./x\n",
    "[gpg]\n\tprogram = ./x\n",
    "[log]\n\tshowSignature = true\n",
    '[remote "origin"]\n\tpromisor = true\n',
    "[submodule]\n\trecurse = true\n",
    "[core] fsmonitor = ./x\n",
    "[core]\n\tfilemode = true \\\n\tfsmonitor = ./x\n",
    "[core]\n\tunknown = x\n",
    "nonsense\n= x\n",
]


def test_a_setting_that_is_not_known_to_be_inert_makes_git_unproven(subtests, root, environment):
    for setting in UNKNOWN_GIT_SETTINGS:
        with subtests.test(setting=setting):
            configure(root, setting)
            for command in ("git status", "git log -1", "cd src && git diff", "git -C src status"):
                assert classify(command, root, environment).kind == "unknown", command
            assert classify("ls", root, environment).kind == "read-only"


def test_ordinary_settings_leave_git_proven(subtests, root, environment):
    for setting in [
        '[remote "origin"]\n\turl = git@example.org:x/y.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
        "[alias]\n\tstatus = !./x\n",
        "[user]\n\tname = A ; a comment\n# another\n\n[pull]\n\trebase\n",
        "[core]\n\thooksPath = .husky\n",
    ]:
        with subtests.test(setting=setting):
            configure(root, setting)
            assert classify("git status", root, environment).kind == "read-only"


def test_a_hook_that_looking_runs_makes_git_unproven(root, environment):
    configure(root, "[core]\n\thooksPath = .husky\n")
    program(root / ".husky" / "post-index-change")
    assert classify("git diff", root, environment).kind == "unknown"
    program(root / ".git" / "hooks" / "pre-commit")
    (root / ".husky" / "post-index-change").unlink()
    assert classify("git diff", root, environment).kind == "read-only"


async def test_settings_that_the_proof_missed_run_nothing(root, monkeypatch):
    configure(root, '[core]\n\tfsmonitor = "touch ran; false"\n\thooksPath = hooks\n')
    program(root / "hooks" / "post-index-change", "touch hooked")
    monkeypatch.setattr("kin_nb.core.safety.shell.read_only.git.check_repository_config", lambda _cwd, **_: None)
    tool = Bash.from_config(BashConfig(workdir=root))
    assert "README.md" in (await tool.invoke(command="git log --stat -1 && git status && git diff")).output
    assert not (root / "ran").exists()
    assert not (root / "hooked").exists()
    await tool.invoke(command="git status; X=1")  # not proven: git does as it is told
    assert (root / "ran").exists()


async def test_a_bare_repository_that_the_proof_missed_is_none_to_git(root, monkeypatch):
    pose(root / "docs")
    monkeypatch.setattr("kin_nb.core.safety.shell.read_only.git.check_repository_config", lambda _cwd, **_: None)
    monkeypatch.setattr("kin_nb.core.safety.shell.read_only.git.external_sources", lambda _cwd, _root: ())
    result = await Bash.from_config(BashConfig(workdir=root)).invoke(command="git -C docs status")
    assert (result.exit_code, "bare repository" in result.output) == (128, True)
    assert not (root / "ran").exists()


async def test_settings_that_the_person_gives_git_by_variables_stay(root):
    own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Me"}
    tool = Bash.from_config(BashConfig(workdir=root, env=own))
    assert (await tool.invoke(command="git config user.name")).output == "Me\n"
    strange = Bash.from_config(BashConfig(workdir=root, env={"GIT_CONFIG_COUNT": "x"}))
    assert "bogus count" in (await strange.invoke(command="git status")).output


def test_submodules_and_their_settings_are_not_looked_into(root, environment):
    run = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(
        [*run, "submodule", "add", "-q", str(root), "sub"], cwd=root, env=environment, check=True, capture_output=True
    )
    assert classify("git status", root, environment).kind == "unknown"
    assert classify("git diff", root, environment).kind == "unknown"
    assert classify("git status --ignore-submodules=dirty", root, environment).kind == "read-only"
    twice = "git status --ignore-submodules=dirty --ignore-submodules=none"
    assert classify(twice, root, environment).kind == "unknown"
    assert classify("git log -1", root, environment).kind == "read-only"


def test_a_folder_that_poses_as_a_repository_is_not_believed(root, environment):
    bare = root / "bare"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], env=environment, check=True)
    assert classify("cd bare && git log", root, environment).kind == "unknown"


EVIL = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch ran; false"\n'


def pose(folder: Path, *, objects: str = "folders", head: str = "link") -> None:
    """What a repository may hold in a folder of its own, and git takes for another repository."""
    folder.mkdir()
    (folder / "config").write_text(EVIL)
    for name in ("objects", "refs"):
        if objects == "folders":
            (folder / name).mkdir()
        else:
            program(folder / name, "")
    if head == "link":
        (folder / "HEAD").symlink_to("refs/heads/main")
    else:
        (folder / "HEAD").write_text("ref: refs/heads/main\n")


@pytest.mark.parametrize("objects", ["folders", "programs"])
@pytest.mark.parametrize("head", ["link", "file"])
@pytest.mark.parametrize("command", ["git -C docs status", "cd docs && git status", "cd docs/refs/.. && git diff"])
def test_no_folder_that_git_may_take_for_a_repository_is_believed(root, environment, objects, head, command):
    pose(root / "docs", objects=objects, head=head)
    assert classify(command, root, environment).kind == "unknown"
    subprocess.run(["git", "-C", "docs", "status"], cwd=root, env=environment, check=False, capture_output=True)
    assert (root / "ran").exists()  # git does take it for one


def test_a_bare_repository_whose_parts_are_elsewhere_is_not_believed(root, environment):
    (root / "docs").mkdir()
    (root / "docs" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "docs" / "commondir").write_text("../x\n")
    assert classify("git -C docs status", root, environment).kind == "unknown"


@pytest.mark.parametrize("inside", [{}, {"HEAD": "nonsense\n"}, {"HEAD": "ref: refs/heads/main\n"}])
def test_a_git_folder_that_git_would_pass_by_is_not_believed(root, environment, inside):
    configure(root, '[core]\n\tfsmonitor = "touch ran; false"\n')
    (root / "src" / ".git").mkdir()
    for name, text in inside.items():
        (root / "src" / ".git" / name).write_text(text)
    if "nonsense\n" in inside.values():
        for name in ("objects", "refs"):
            (root / "src" / ".git" / name).mkdir()
    assert classify("git -C src status", root, environment).kind == "unknown"
    subprocess.run(["git", "-C", "src", "status"], cwd=root, env=environment, check=False, capture_output=True)
    assert (root / "ran").exists()  # git passed it by, and obeyed the root's settings


def test_a_pointer_that_git_would_read_otherwise_is_not_believed(subtests, root, environment):
    for text in ["gitdir: x \n", "gitdir:x\n", "gitdir:  x\n", "gitdir: x\ny\n", "gitdir: \n"]:
        with subtests.test(text=text):
            (root / "src" / ".git").write_text(text)
            assert classify("git -C src status", root, environment).kind == "unknown"


@pytest.mark.parametrize("value", [".ev ; c", ".ev # c", '".ev"', ".e\\\\v", '.e"v"', ".ev x"])
def test_a_folder_of_hooks_that_is_written_unclearly_makes_git_unproven(root, environment, value):
    configure(root, f"[core]\n\thooksPath = {value}\n")
    assert classify("git diff", root, environment).kind == "unknown"


def test_a_worktrees_settings_are_those_of_its_repository(root, environment):
    subprocess.run(
        ["git", "worktree", "add", "-q", str(root / "tree")], cwd=root, env=environment, check=True, capture_output=True
    )
    assert classify("cd tree && git status", root, environment).kind == "read-only"
    configure(root, "[core]\n\tfsmonitor = ./monitor\n")
    assert classify("cd tree && git status", root, environment).kind == "unknown"
    (root / "tree" / ".git").write_text("gitdir: /nowhere\n")
    assert classify("cd tree && git status", root, environment).kind == "read-only"  # git finds nothing there
    (root / "tree" / ".git").write_text("nonsense\n")
    assert classify("cd tree && git status", root, environment).kind == "unknown"


@pytest.fixture
def other(root, environment) -> Path:
    """Another project's repository, beside the workspace."""
    other = root.parent / "other"
    run = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(other)]
    subprocess.run(["git", "init", "-q", "-b", "main", str(other)], env=environment, check=True)
    (other / "private.txt").write_text("PRIVATE\n")
    for command in ("add .", "commit -qm first"):
        subprocess.run([*run, *command.split()], env=environment, check=True)
    return other


def git(root: Path, environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, env=environment, check=False, capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize("way", ["pointer", "link", "common", "refs", "packed", "alternates"])
def test_a_repository_that_shows_another_ones_content_names_it(root, environment, other, way):
    ours, theirs = root / "sub" / ".git", other / ".git"
    head = git(other, environment, "rev-parse", "HEAD").strip()
    ours.parent.mkdir()
    if way == "pointer":
        ours.write_text(f"gitdir: {theirs}\n")
    elif way == "link":
        ours.symlink_to(theirs)
    else:
        for folder in ("objects/info", "refs/heads"):
            (ours / folder).mkdir(parents=True)
        (ours / "HEAD").write_text("ref: refs/heads/main\n")
        if way == "common":
            (ours / "commondir").write_text(f"{theirs}\n")
        else:
            (ours / "objects/info/alternates").write_text(f"# theirs\n{theirs}/objects\n")
            (ours / "refs/heads/main").write_text(f"{head}\n")
        if way == "refs":
            (ours / "objects/info/alternates").unlink()
            (ours / "refs/heads/main").unlink()
            for folder in ("objects", "refs"):
                shutil.rmtree(ours / folder)
                (ours / folder).symlink_to(theirs / folder)
        if way == "packed":
            (ours / "refs/heads/main").unlink()
            git(other, environment, "pack-refs", "--all")
            (ours / "packed-refs").symlink_to(theirs / "packed-refs")
    assert "PRIVATE" in git(root / "sub", environment, "log", "-p", "-1")  # git does show it
    judgement = classify("cd sub && git log -p -1", root, environment)
    assert judgement.kind == "read-only"
    assert any(Path(path).is_relative_to(theirs) for path in judgement.reads)


def test_a_linked_worktree_is_no_one_elses(root, environment, other):
    linked = root.parent / "linked"
    git(other, environment, "worktree", "add", "-q", str(linked))
    assert classify("git log -p -1", linked, environment).reads == (".",)
    (root / "posing").mkdir()
    (root / "posing" / ".git").write_text((linked / ".git").read_text())
    reads = classify("cd posing && git log -p -1", root, environment).reads
    assert str(other / ".git") in reads


def test_objects_borrowed_from_a_folder_that_is_unclear_make_git_unproven(root, environment):
    (root / ".git/objects/info/alternates").write_text('"/x\\ty"\n')
    assert classify("git log -1", root, environment).kind == "unknown"


def test_settings_that_never_end_are_not_waited_for(root, environment):
    (root / ".git" / "config").unlink()
    os.mkfifo(root / ".git" / "config")
    assert classify("git status", root, environment).kind == "unknown"


def test_git_told_to_look_elsewhere_is_not_proven(root, environment):
    assert classify("git status", root, environment | {"GIT_DIR": "/x"}).kind == "unknown"


def test_a_program_of_the_workspace_is_not_the_one_that_is_known(subtests, root, environment):
    for entry in ["", ".", "bin", "{root}/bin"]:
        with subtests.test(entry=entry):
            program(root / "bin" / "ls")
            program(root / "ls")
            first = environment | {"PATH": f"{entry.format(root=root)}:{environment['PATH']}"}
            judgement = classify("ls", root, first)
            assert (judgement.kind, "a program of the workspace" in judgement.reason) == ("unknown", True)
            assert classify("cat README.md", root, first).kind == "read-only"
            last = environment | {"PATH": f"{environment['PATH']}:{entry.format(root=root)}"}
            assert classify("ls", root, last).kind == "read-only"


def test_a_shell_of_the_workspace_proves_nothing(root, environment):
    program(root / "bin" / "bash")
    assert classify("pwd", root, environment | {"PATH": f"{root}/bin"}).kind == "unknown"


def test_a_program_of_the_workspace_is_not_the_one_that_runs_another(subtests, root, environment):
    for name in ["timeout", "xargs", "echo", "true"]:
        with subtests.test(name=name):
            program(root / "bin" / name)
            first = environment | {"PATH": f"{root}/bin:{environment['PATH']}"}
            line = {"xargs": "ls | xargs echo", "echo": "ls | xargs", "true": "timeout 5 true"}.get(
                name, "timeout 5 wc README.md"
            )
            assert classify(line, root, environment).kind == "read-only"
            assert classify(line, root, first).kind == "unknown"


def test_a_version_managers_shim_is_not_the_program(root, environment, tmp_path):
    program(tmp_path / "shims" / "python")
    path = f"{tmp_path}/shims:{environment['PATH']}"
    assert classify("python --version", root, environment | {"PATH": path}).kind == "unknown"


def test_a_toolchain_that_the_folder_names_is_not_the_persons(root, environment):
    assert classify("cargo --version", root, environment).kind == "read-only"
    (root / "rust-toolchain.toml").write_text('[toolchain]\npath = "x"\n')
    assert classify("cargo --version", root, environment).kind == "unknown"
    assert classify("pip list", root, environment | {"PYTHONPATH": "src"}).kind == "unknown"


def test_names_that_no_file_can_have_are_unproven(root, environment):
    (root / "circle").symlink_to("circle")
    for command in ("cat circle", f"cat {'a' * 300}", "cat 'a\nb'"):
        assert classify(command, root, environment).kind == "unknown"


def test_a_folder_too_large_to_be_sure_of_is_unproven(root, environment, monkeypatch):
    monkeypatch.setattr("kin_nb.core.safety.shell.read_only.working_dir._SEARCHED", 5)
    judgement = classify("grep -r x .", root, environment)
    assert (judgement.kind, "too many files" in judgement.reason) == ("unknown", True)


def test_without_the_parser_nothing_is_proven(root, environment, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kin_nb.core.safety.shell.read_only.prover", None)
    judgement = classify("ls", root, environment)
    assert judgement.kind == "unknown"
    assert classify("rm -rf /", root, environment).kind == "dangerous"


def test_a_letter_that_ends_in_a_backslash_is_proven_nowhere_but_in_utf_8(tmp_path):
    place = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for named, kind in (
        ({}, "read-only"),
        ({"LANG": "zh_CN.GBK"}, "unknown"),
        ({"LC_ALL": "en_US.UTF-8"}, "read-only"),
    ):
        assert classify("echo 'é'", tmp_path, place | named).kind == kind
        assert classify("echo e", tmp_path, place | named).kind == "read-only"
    assert classify("echo 'é'", tmp_path, place | {"LC_CTYPE": "zh_TW.BIG5", "LANG": "C.UTF-8"}).kind == "unknown"


def test_nothing_is_proven_where_another_shell_would_run_it(tmp_path):
    assert classify("ls", tmp_path, {"PATH": str(tmp_path), "HOME": str(tmp_path)}).kind == "unknown"


def test_a_program_that_runs_another_of_the_workspace_is_not_proven(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "grep").write_text("#!/bin/sh\ntouch PWNED\n")
    (folder / "grep").chmod(0o755)
    place = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for name in ("grep", "egrep", "fgrep"):
        assert classify(f"{name} x README.md", tmp_path, place).kind == "unknown"


READER_VARIABLES = [
    *(
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_cat%%",
        "CDPATH",
        "GLOBIGNORE",
        "GLOBSORT",
        "BASHOPTS",
        "SHELLOPTS",
        "POSIXLY_CORRECT",
    ),
    *(
        "GIT_TRACE",
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "GIT_DIR",
        "PERL5LIB",
        "PERL5OPT",
        "PYTHONPATH",
        "LESSOPEN",
    ),
    *(
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "GREP_OPTIONS",
        "RIPGREP_CONFIG_PATH",
        "TREE_COLORS",
        "PWD",
        "IFS",
        "LC_COLLATE",
        "LC_ALL",
    ),
]


def test_a_reader_is_shown_nothing_that_changes_what_it_does(subtests):
    for name in READER_VARIABLES:
        with subtests.test(name=name):
            kept = read_only_environment({"PATH": "/bin", name: "x"}, {})
            assert kept.get(name, "C") == "C"
            assert kept["LC_COLLATE"] == "C"


def test_a_reader_loads_nothing_that_the_settings_of_bash_name(subtests):
    for name in [
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_ls%%",
        "SHELLOPTS",
        "PS4",
        "LD_PRELOAD",
        "DYLD_X",
        "GCONV_PATH",
        "LOCPATH",
    ]:
        with subtests.test(name=name):
            kept = read_only_environment({"PATH": "/bin"}, {name: "./setup.sh", "GREETING": "hello"})
            assert name not in kept
            assert kept["GREETING"] == "hello"


def test_files_come_in_the_order_in_which_they_were_judged(tmp_path):
    """`sed *`: the script is the first of them."""
    for name in ("G", "e id", "é"):
        (tmp_path / name).write_text("")
    environment = read_only_environment({"PATH": "/usr/bin:/bin", "LC_ALL": "en_US.UTF-8", "LANG": "en_US.UTF-8"}, {})
    assert environment["LC_CTYPE"] == "en_US.UTF-8"
    done = subprocess.run(
        ["bash", "-c", "echo *"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "G e id é\n"


def test_an_address_that_the_persons_settings_put_a_token_into_is_asked_about(tmp_path):
    home, root = tmp_path / "home", tmp_path / "ws"
    root.mkdir()
    home.mkdir()
    place = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    subprocess.run(["git", "init", "-q"], cwd=root, env=place, check=True)
    (home / ".gitconfig").write_text("[user]\n\tname = a\n")
    assert classify("git remote -v", root, place).reads == (".",)
    for text in (
        '[url "https://u:TOKEN@github.com/"]\n\tinsteadOf = https://github.com/\n',
        "[include]\n\tpath = more\n",
    ):
        (home / ".gitconfig").write_text(text)
        assert classify("git remote -v", root, place).reads == (".", str(home / ".gitconfig"))
    named = place | {"GIT_CONFIG_GLOBAL": str(tmp_path / "none")}
    assert classify("git remote get-url origin", root, named).reads == (".",)


def test_git_diff_leaves_the_index_alone_where_times_differ_and_nothing_else(tmp_path):
    place = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for words in (["init", "-q"], ["add", "-A"]):
        (tmp_path / "a").write_text("x\n")
        subprocess.run(["git", *words], cwd=tmp_path, env=place, check=True)
    os.utime(tmp_path / "a", (1, 1))
    before = (tmp_path / ".git" / "index").stat()
    for command in ("git diff", "git diff --stat", "git status"):
        assert classify(command, tmp_path, place).kind == "read-only"
        subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=read_only_environment(place, {}), capture_output=True, check=True
        )
    after = (tmp_path / ".git" / "index").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_objects_that_are_links_are_borrowed(tmp_path):
    place = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    root, other = tmp_path / "ws", tmp_path / "other.pack"
    subprocess.run(["git", "init", "-q", str(root)], env=place, check=True)
    other.write_text("")
    (root / ".git" / "objects" / "pack" / "pack-1.pack").symlink_to(other)
    assert str(other) in classify("git show HEAD", root, place).reads


def test_a_home_folder_in_the_path_may_hold_another_program(tmp_path):
    place = {"PATH": "~/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    assert classify("cat README.md", tmp_path, place).kind == "unknown"


async def test_a_proof_that_holds_no_more_when_it_runs_runs_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    tool = Bash.from_config(BashConfig(workdir=tmp_path))
    args = tool.parse_args({"command": "cat a*"})
    assert tool.accesses(args).reads
    (tmp_path / "a.txt").rename(tmp_path / "-a")
    (tmp_path / "a-").symlink_to("/dev/zero")
    with pytest.raises(ToolError, match="was approved as read-only"):
        await tool.run(args)
    assert (await tool.run(tool.parse_args({"command": "echo fine; exit 0"}))).output == "fine\n"
