"""bash: which commands it says only read, and how those run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.tool_types import Accesses
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig


@pytest.fixture
def bash(workspace) -> Bash:
    return Bash.from_config(BashConfig(workdir=workspace))


def accesses(tool: Bash, command: str) -> Accesses:
    return tool.accesses(BashArgs(command=command))


def test_a_command_that_is_proven_harmless_only_reads(bash):
    assert accesses(bash, "cat a.py | sort") == Accesses(reads=("a.py",))
    assert accesses(bash, "sleep 1; echo hi") == Accesses(reads=(".",))


def test_any_other_command_may_touch_everything_and_says_why(bash):
    found = accesses(bash, "sed -i s/a/b/ a.py")
    assert (found.everything, found.reason) == (True, "`sed -i` writes files")
    assert accesses(bash, "rm -rf /").everything


def test_lists_match_a_harmless_command_as_any_other(bash, workspace):
    tool = Bash.from_config(BashConfig(workdir=workspace, denylist=["cat"], allowlist=["ls src"]))
    assert tool.why_denied(BashArgs(command="cat x")) == '"cat" is in the denylist of [tools.bash]'
    assert tool.allows("ls src", BashArgs(command="ls src"))
    assert not tool.allows("src", BashArgs(command="ls src"))


def test_the_environment_of_the_commands_decides(workspace):
    program = workspace / "bin" / "ls"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    tool = Bash.from_config(BashConfig(workdir=workspace, env={"PATH": f"{workspace}/bin:/usr/bin:/bin"}))
    assert accesses(tool, "ls").everything
    assert accesses(tool, "pwd").only_reads


@pytest.fixture
def stale_index(workspace) -> Path:
    """git's index, whose times `git status` would like to renew."""
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (workspace / "a").write_text("a")
    subprocess.run(["git", "-C", str(workspace), "add", "a"], check=True)
    os.utime(workspace / "a", (1, 1))
    return workspace / ".git" / "index"


async def test_git_takes_no_locks_for_what_only_reads(bash, stale_index):
    before = stale_index.read_bytes()
    assert (await bash.invoke(command="git status --short")).output == "A  a\n"
    assert stale_index.read_bytes() == before
    await bash.invoke(command="git status --short; X=1")  # not proven: git does as it likes
    assert stale_index.read_bytes() != before


async def test_what_is_proven_means_the_same_when_it_runs(bash, workspace, monkeypatch):
    """Variables that change what words mean are not handed to commands that were proven without them."""
    (workspace / ".hidden").write_text("hidden")
    (workspace / "shown").write_text("shown")
    monkeypatch.setenv("GLOBIGNORE", "x")  # it would make `*` match hidden files
    monkeypatch.setenv("BASHOPTS", "dotglob")
    assert accesses(bash, "cat *") == Accesses(reads=(".", "shown"))
    assert (await bash.invoke(command="cat *")).output == "shown"


def test_the_parser_is_loaded_with_the_first_command():
    script = "import sys, kin_nb.core.tools.builtins.bash; print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_is_sent_with_each_request_is_short():
    info = Bash.get_info()
    assert len(f"{info.name}{info.description}{json.dumps(info.parameters)}".encode()) <= 1_000


@pytest.mark.parametrize("folder", ["gone", "a file"])
def test_a_workspace_that_is_no_folder_proves_nothing_and_breaks_nothing(tmp_path, folder):
    (tmp_path / "a file").write_text("")
    tool = Bash.from_config(BashConfig(workdir=Path(tmp_path / folder)))
    assert isinstance(accesses(tool, "git status && grep -r x . && cat *"), Accesses)


def test_a_command_names_the_sensitive_files_that_it_surely_writes(subtests, bash):
    for command, written in [
        ("echo obey me > AGENTS.md", "AGENTS.md"),
        ("make >> .github/workflows/ci.yml 2>&1", ".github/workflows/ci.yml"),
        ("cat rules.md | tee claude.md", "claude.md"),
        ("cp rules.md .cursor/rules.md && make", ".cursor/rules.md"),
        ("(cd src; touch conftest.py)", "conftest.py"),
        ("bash -c 'echo x > .mcp.json'", ".mcp.json"),
        ("sed -i s/a/b/ .gitattributes", ".gitattributes"),
        ("dd if=x of=.pre-commit-config.yaml", ".pre-commit-config.yaml"),
    ]:
        with subtests.test(command=command, written=written):
            found = accesses(bash, command)
            assert (found.everything, found.writes) == (True, (written,))


def test_other_files_and_words_that_are_not_plain_are_not_named(subtests, bash):
    for command in ["make > build.log", "pytest tests/conftest.py", "touch $NAME", "cp a.py b.py"]:
        with subtests.test(command=command):
            assert accesses(bash, command).writes == ()
