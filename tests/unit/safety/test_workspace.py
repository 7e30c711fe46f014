"""Paths: where they lead, which are sensitive, and files that are traps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace, open_regular, read_bytes

OBEYED = [
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".windsurfrules", ".github/workflows/ci.yml"),
    *(
        ".github/copilot-instructions.md",
        ".devcontainer/devcontainer.json",
        ".pre-commit-config.yaml",
        ".gitattributes",
    ),
    *("mise.toml", ".mise.toml", ".gitlab-ci.yml", ".ipynb_checkpoints/a-checkpoint.ipynb"),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "project").mkdir()
    return Workspace(tmp_path / "project")


def test_a_path_is_relative_to_the_root_and_may_not_exist_yet(workspace):
    assert workspace.resolve("src/../x.py") == workspace.root / "x.py"
    assert workspace.relative(workspace.resolve("a/b")) == "a/b"
    assert workspace.relative(Path("/etc/hosts")) == "/etc/hosts"


def test_the_home_is_expanded(workspace, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert workspace.resolve("~/x") == tmp_path.resolve() / "x"


def test_what_lies_outside_resolves_and_is_not_contained(subtests, workspace):
    for path in ["../secret", "/etc/passwd", "a/../../b", "~"]:
        with subtests.test(path=path):
            assert not workspace.contains(workspace.resolve(path))


def test_a_symlink_out_of_the_workspace_is_outside(workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    (workspace.root / "inside").symlink_to(tmp_path / "outside")
    assert not workspace.contains(workspace.resolve("inside/new.txt"))
    assert not workspace.contains(workspace.root / "inside" / "new.txt")
    assert workspace.contains(workspace.resolve("other/new.txt"))


def test_a_sibling_with_the_same_beginning_is_outside(workspace, tmp_path):
    assert not workspace.contains(tmp_path / "project-2" / "x")


def test_an_impossible_path_is_refused_in_one_sentence(subtests, workspace):
    for number, path in enumerate(["", "  ", "a\0b", "a\nb", "a\x1b[2J", "~nobody-of-this-name/x", "x" * 300]):
        with subtests.test(number=number):
            with pytest.raises(ToolError) as refused:
                workspace.resolve(path)
            assert "\n" not in str(refused.value)
            assert "\x1b" not in str(refused.value)


def test_a_symlink_loop_is_refused(workspace):
    (workspace.root / "a").symlink_to("b")
    (workspace.root / "b").symlink_to("a")
    with pytest.raises(ToolError, match="not a usable path"):
        workspace.resolve("a")


SENSITIVE_PATHS = [
    *(
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/config",
        ".GIT/config",
        ".git",
        ".hg/hgrc",
        ".husky/pre-push",
    ),
    *(
        ".bashrc",
        "home/.zshrc",
        ".profile",
        "sitecustomize.py",
        "lib/evil.pth",
        ".pdbrc",
        ".envrc",
        ".vscode/tasks.json",
    ),
    *(".ipython/profile_default/startup/00.py", "share/jupyter/kernels/x/kernel.json", "ipython_config.py"),
    *(
        ".env",
        ".env.local",
        "prod.env",
        ".ssh/id_ed25519",
        "keys/id_rsa",
        "server.pem",
        ".aws/credentials",
        ".netrc",
    ),
    *(".gnupg/x", ".docker/config.json", "credentials.json", ".npmrc", ".gitconfig", ".kin-code/config.toml"),
    *("/proc/self/environ", "/dev/zero"),
]


def test_secrets_and_what_runs_later_are_sensitive(subtests, workspace):
    for path in SENSITIVE_PATHS:
        with subtests.test(path=path):
            assert workspace.is_sensitive(workspace.root / path)


def test_ordinary_files_are_not_sensitive(subtests, workspace):
    for path in [
        "Makefile",
        "src/x.py",
        ".gitignore",
        ".github/workflows/ci.yml",
        ".env.example",
        "id_rsa.pub",
        "secrets.py",
        "git/x",
    ]:
        with subtests.test(path=path):
            assert workspace.is_sensitive(workspace.root / path) is None


def test_files_that_others_obey_are_sensitive_when_written_and_not_when_read(subtests, workspace):
    for path in OBEYED:
        with subtests.test(path=path):
            for name in (path, path.upper(), f"sub/{path}"):
                assert workspace.is_sensitive(workspace.root / name, "write")
                assert workspace.is_sensitive(workspace.root / name) is None


def test_settings_that_may_hold_keys_and_what_runs_later_are_sensitive_when_read_too(subtests, workspace):
    for path in [".mcp.json", ".claude/settings.json", ".cursor/mcp.json", "sitecustomize.py"]:
        with subtests.test(path=path):
            assert workspace.is_sensitive(workspace.root / path)
            assert workspace.is_sensitive(workspace.root / path, "write")


def test_cluster_and_infrastructure_secrets_are_sensitive_when_read(subtests, workspace):
    for path in ["kubeconfig", "prod.kubeconfig", "kubeconfig-eu.yaml", ".kube/config", "a.tfstate"]:
        with subtests.test(path=path):
            assert workspace.is_sensitive(workspace.root / path) == "may hold secrets"
            assert workspace.is_sensitive(workspace.root / "x" / path.upper()) == "may hold secrets"


def test_conftest_is_sensitive_when_it_is_created_only(workspace):
    conftest = workspace.root / "tests" / "conftest.py"
    assert workspace.is_sensitive(conftest, "write")
    conftest.parent.mkdir()
    conftest.write_text("")
    assert workspace.is_sensitive(conftest, "write") is None


def test_a_workspace_in_an_agents_folder_is_not_that_agents_settings(tmp_path):
    root = tmp_path / ".cursor" / "worktrees" / "project"
    root.mkdir(parents=True)
    workspace = Workspace(root)
    assert workspace.is_sensitive(root / "a.py", "write") is None
    assert workspace.is_sensitive(root / ".cursor" / "mcp.json")
    assert workspace.is_sensitive(tmp_path / ".cursor" / "mcp.json")


def test_a_link_is_as_sensitive_as_its_target_and_as_its_name(workspace):
    (workspace.root / ".env").symlink_to("plain.txt")
    (workspace.root / "innocent.txt").symlink_to(".git/config")
    assert workspace.is_sensitive(workspace.root / ".env")
    assert workspace.is_sensitive(workspace.root / "innocent.txt")


def test_our_own_home_is_sensitive_wherever_it_is(workspace, monkeypatch, tmp_path):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "elsewhere"))
    assert "kin_nb" in (workspace.is_sensitive(tmp_path / "elsewhere" / "config.toml") or "")


def test_a_named_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError, match="named pipe"):
        open_regular(tmp_path / "pipe")


def test_what_is_no_regular_file_is_refused(subtests):
    for path, reason in [("/dev/zero", "device"), ("/", "folder"), ("/no/such", "no such file")]:
        with subtests.test(path=path, reason=reason), pytest.raises(ToolError, match=reason):
            read_bytes(Path(path), 10)


def test_a_link_is_not_followed_when_opening(tmp_path):
    (tmp_path / "x").write_text("x")
    (tmp_path / "link").symlink_to("x")
    with pytest.raises(ToolError, match="symbolic link"):
        open_regular(tmp_path / "link", "link")


def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_is_read(tmp_path):
    (tmp_path / "x").write_bytes(b"0123456789")
    assert read_bytes(tmp_path / "x", 10) == b"0123456789"
    with pytest.raises(ToolError, match="larger than 9 bytes"):
        read_bytes(tmp_path / "x", 9)
