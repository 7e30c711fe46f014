"""Adversarial command lines, tried on the real bash and git: a marker file proves that a program ran."""

from __future__ import annotations

import itertools
import os
import subprocess

from kin_nb.core.safety.shell import classify
from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.read_only.working_dir import read_only_environment
from tests.unit.safety import shell_workspace

ENVIRONMENT = {"HOME": "/home/u", "USER": "u", "PATH": "/usr/bin:/bin"}

DELETES_ROOT = [
    # quoting
    "'rm' -rf /",
    'r""m -rf /',
    r"\rm -rf /",
    "rm -rf '/'''",
    "rm -r\\f /",
    "$'\\x72m' -rf /",
    "rm -rf $'\\057'",
    'rm -rf ""/""',
    # expansion
    "x=/; rm -rf ${x}",
    "x=r; y=m; $x$y -rf /",
    "x='rm -rf'; $x /",
    "set -- rm -rf /; $@",
    'set -- -rf /; rm "$@"',
    "a=(rm -rf /); ${a[@]}",
    "rm -rf ${undefined:-/}",
    "for a in / b; do rm -rf $a; done",
    "{rm,-rf,/}",
    "rm -rf {/,b}",
    "x=/; eval 'rm -rf $x'",
    'x="rm -rf /"; eval "$x"',
    "rm -rf `echo /`",
    "rm -rf $(printf /)",
    # here-documents and pipes
    "bash <<'E'\nrm -rf /\nE",
    "bash <<-E\n\trm -rf /\n\tE",
    "cat <<E | bash\nrm -rf /\nE",
    "bash <<< 'rm -rf /'",
    "echo 'rm -rf /' | bash -s",
    "printf '%s' 'rm -rf /' | (bash)",
    "echo / | xargs rm -rf",
    "bash < <(echo 'rm -rf /')",
    ". <(echo 'rm -rf /')",
    # aliases and functions
    "shopt -s expand_aliases\nalias d='rm -rf'\nd /",
    "f() { rm -rf $1; }; f /",
    "function g { rm -rf /; }; g",
    "trap 'rm -rf /' EXIT",
    # prefixes
    "A=1 rm -rf /",
    "env A=1 rm -rf /",
    "env -i rm -rf /",
    "env -S 'rm -rf /'",
    "nice -n 5 rm -rf /",
    "timeout 5 env nohup rm -rf /",
    "command rm -rf /",
    "exec rm -rf /",
    "bash -c 'bash -c \"rm -rf /\"'",
    "bash -ec 'rm -rf /'",
    "bash -c 'rm -rf $0' /",
    "echo 'rm -rf /' > x.sh; bash x.sh",
    "cd /; rm -rf ../..",
    "true && { rm -rf /; }",
    "case x in *) rm -rf /;; esac",
    "rm \\\n-rf /",
]


def test_a_line_that_deletes_the_root_is_refused(subtests, tmp_path):
    """A program `rm` that only notes its arguments shows that bash would have deleted the root."""
    stub, marker = tmp_path / "bin" / "rm", tmp_path / "ran"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\necho "$@" >> "{marker}"\n')
    stub.chmod(0o755)
    # bash finds no other program `rm`: the real one's folder is not on this PATH
    for name in ("bash", "env", "nice", "timeout", "nohup", "xargs", "cat"):
        (stub.parent / name).symlink_to(next(p for p in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(p)))  # noqa: PTH110
    path = f"PATH={stub.parent}"
    for number, command in enumerate(DELETES_ROOT):
        with subtests.test(command=command):
            assert danger(command, tmp_path, ENVIRONMENT)
            marker.unlink(missing_ok=True)
            scratch = tmp_path / f"scratch{number}"
            scratch.mkdir()
            given = command.replace("env -i", f"env -i {path}")
            subprocess.run(
                ["/bin/bash", "-c", given],
                cwd=scratch,
                env={"PATH": str(stub.parent), "HOME": str(tmp_path)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
            arguments = marker.read_text().split()
            assert any(os.path.normpath(f"/{word}" if word.startswith("..") else word) == "/" for word in arguments)


CONFIGURED = {
    "monitor": '[core]\n\tfsmonitor = "touch {ran}; false"\n',
    "monitor on one line": '[core] fsmonitor = "touch {ran}; false"\n',
    "monitor, continued": '[core]\n\tfsmonitor = "touch \\\n{ran}; false"\n',
    "monitor, section in capitals": '[CORE]\n\tFsMonitor = "touch {ran}; false"\n',
    "monitor after a comment": '[core] ; x\n\tfsmonitor = "touch {ran}; false"\n',
    "external diff": '[diff]\n\texternal = "touch {ran}; true"\n',
    "pager": '[core]\n\tpager = "touch {ran}; cat"\n',
    "include": "[include]\n\tpath = ../extra\n",
    "include by folder": '[includeIf "gitdir:/"]\n\tpath = ../extra\n',
    "include by branch": '[includeIf "onbranch:*"]\n\tpath = ../extra\n',
    "worktree settings": "[extensions]\n\tworktreeConfig = true\n",
}
LOOKS = ["git status", "git diff", "git log -p -1", "git -C src status", "cd src && git diff", "git show HEAD"]


def test_a_setting_of_the_repository_runs_nothing(subtests, tmp_path):
    for number, (way, setting) in enumerate(CONFIGURED.items()):
        parent = tmp_path.resolve() / str(number)
        root, ran = shell_workspace.make(parent), parent / "ran"
        environment = shell_workspace.environment(parent / "home")
        with (root / ".git" / "config").open("a") as file:
            file.write(setting.format(ran=ran))
        monitor = CONFIGURED["monitor"].format(ran=ran)
        (root / "extra").write_text(monitor)
        (root / ".git" / "config.worktree").write_text(monitor if way == "worktree settings" else "")
        for command in LOOKS:
            with subtests.test(way=way, command=command):
                assert classify(command, root, environment).kind == "unknown"
        with subtests.test(way=way):
            subprocess.run(["git", "diff"], cwd=root, env=environment, capture_output=True, check=False)
            assert ran.exists() or way == "pager"  # git does run it: a pager only on a terminal


ATTRIBUTED = {
    "filter": ("* filter=x\n", '[filter "x"]\n\tclean = "touch {ran}; cat"\n'),
    "text conversion": ("* diff=x\n", '[diff "x"]\n\ttextconv = "touch {ran}; cat"\n'),
    "diff driver": ("* diff=x\n", '[diff "x"]\n\tcommand = "touch {ran}; true"\n'),
    "macro": ("[attr]y diff=x\n* y\n", '[diff "x"]\n\ttextconv = "touch {ran}; cat"\n'),
}


def test_an_attribute_that_names_a_program_of_the_repository_runs_nothing(subtests, tmp_path):
    rows = itertools.product((".gitattributes", ".git/info/attributes", "src/.gitattributes"), ATTRIBUTED)
    for number, (place, way) in enumerate(rows):
        attributes, settings = ATTRIBUTED[way]
        if "[attr]" in attributes and place.startswith("src"):
            continue  # git takes macros from the top folder only
        with subtests.test(place=place, way=way):
            parent = tmp_path.resolve() / str(number)
            root, ran = shell_workspace.make(parent), parent / "ran"
            environment = shell_workspace.environment(parent / "home")
            (root / place).parent.mkdir(exist_ok=True)
            (root / place).write_text(attributes)
            with (root / ".git" / "config").open("a") as file:
                file.write(settings.format(ran=ran))
            for command in (*LOOKS, "git diff -- src", "git diff --stat"):
                assert classify(command, root, environment).kind == "unknown", command
            subprocess.run(["git", "diff"], cwd=root, env=environment, capture_output=True, check=False)
            assert ran.exists()


GIVEN = [
    "git -c core.fsmonitor=./m status",
    "git -c core.fsmonitor=./m -C src status",
    "git -c diff.external=./m diff",
    "git --config-env=core.fsmonitor=HOME status",
    "git -c alias.x='!./m' x",
    "git --exec-path=. status",
    "git --git-dir=src status",
    "git --work-tree=.. status",
    "git -p log",
    "git diff --ext-diff",
    "git log -p --textconv",
    "git grep -O./m x",
    "git grep --open-files-in-pager=./m x",
    "git log --show-signature",
    "git log --format=%GG",
    "git for-each-ref --format='%(signature)'",
    "git diff --output=x",
    "git log --outp=x",
    "git submodule foreach ./m",
    "git rebase -x ./m HEAD~1",
    "git bisect run ./m",
    "git difftool -x ./m",
    "git worktree add ../y",
    "git stash",
    "git branch new",
    "git tag new",
    "git config core.fsmonitor ./m",
    "git config --get core.fsmonitor ./m",
    "git remote add x y",
    "git symbolic-ref HEAD refs/heads/x",
    "git fetch --upload-pack=./m .",
    "git ls-remote 'ext::sh -c ./m'",
    "GIT_EXTERNAL_DIFF=./m git diff",
    "env GIT_DIR=x git status",
    "PAGER=./m git -p log",
]


def test_a_git_line_that_runs_or_changes_something_is_not_proven(subtests, tmp_path):
    root = shell_workspace.make(tmp_path.resolve())
    environment = shell_workspace.environment(root.parent / "home")
    for command in GIVEN:
        with subtests.test(command=command):
            assert classify(command, root, environment).kind == "unknown"


def test_a_proven_line_runs_no_program_that_the_repository_holds(tmp_path):
    """Hooks, attributes without a driver, an alias, a linked worktree: git is proven, and runs none of them."""
    root, ran = shell_workspace.make(tmp_path.resolve()), tmp_path / "ran"
    environment = shell_workspace.environment(root.parent / "home")
    for hook in ("pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        path = root / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    (root / ".gitattributes").write_text("* filter=lfs diff=unknown\n")
    with (root / ".git" / "config").open("a") as file:
        file.write(f"[alias]\n\tstatus = !touch {ran}\n\tdiff = !touch {ran}\n")
    subprocess.run(["git", "worktree", "add", "-q", "tree"], cwd=root, env=environment, check=True, capture_output=True)
    ran.unlink(missing_ok=True)  # making the worktree ran a hook
    for command in (*LOOKS, "cd tree && git status", "git -C tree diff", "git stash list", "git branch -a"):
        assert classify(command, root, environment).kind == "read-only", command
        subprocess.run(["bash", "-c", command], cwd=root, env=read_only_environment(environment, {}), check=False)
    assert not ran.exists()
