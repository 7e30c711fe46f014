"""A session that worked in a git repository with a virtual environment, run again with its tools in another clone of it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless
from tests.notebook.people import kin_nb_here
from tests.notebook.recorded import Lived, live, replayed_with_tools

pytestmark = pytest.mark.kernel

TEST = """import unittest
import helper
import pkg


class Test(unittest.TestCase):
    def test_answer(self):
        print(pkg.__file__)
        self.assertEqual(pkg.answer(), helper.ANSWER)
"""
FILES = {
    ".gitignore": ".venv/\n__pycache__/\n",
    ".gitattributes": "*.txt filter=evil diff=evil\n",
    "a.txt": "a\n",
    "test_pkg.py": TEST,
}
COMMANDS = (
    "git status --short",
    "git log --oneline",
    "git status -sb && git branch && git rev-parse HEAD",
    ".venv/bin/python -m unittest",
)
AFTER = (
    "git status --short",
    "git diff",
    ".venv/bin/python -m unittest",
    "echo made > new.txt && git add -A && git commit -m 'Answer otherwise'",
    "git status",
    "git show --stat --format=%s HEAD",
)
EDIT = tool_call("edit_file", path="src/pkg.py", old_string="return 41", new_string="return 40 + 2")


def git(folder: Path, *argv: str) -> str:
    done = subprocess.run(["git", *argv], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_environment(folder: Path) -> None:
    """With a package of its own, and the project installed as editable."""
    venv.create(folder / ".venv", symlinks=True, with_pip=False)
    (packages,) = (folder / ".venv" / "lib").glob("python*/site-packages")
    (packages / "helper").mkdir()
    (packages / "helper" / "__init__.py").write_text("ANSWER = 42\n")
    (packages / "project.pth").write_text(f"{folder / 'src'}\n")


def make_repository(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "pkg.py").write_text("def answer():\n    return 41\n")
    git(folder, "init", "-q", "-b", "main")
    for key, value in {"user.name": "Ann", "user.email": "ann@example.org", "commit.gpgsign": "false"}.items():
        git(folder, "config", key, value)
    for number in range(3):
        (folder / "count").write_text(f"{number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"Count to {number}")


def cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    make_repository(workspace)
    git(workspace.parent, "clone", "-q", "--no-hardlinks", str(workspace), "second")
    make_environment(workspace)
    for prompt, calls in (
        ("Look.", [tool_call("bash", command=command) for command in COMMANDS]),
        ("Mend it.", [EDIT, *(tool_call("bash", command=command) for command in AFTER)]),
    ):
        server.enqueue(calls=calls)
        server.enqueue("Done.")
        kernel.ok(f"%%kin\n{prompt}")


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    lived = live(tmp_path_factory.mktemp("repository"), FILES, cells, 'policy = "yolo"\n{}'.format)
    told = "\n".join(str(request["messages"]) for request in lived.requests)
    assert "[main " in told, "or nothing was committed"
    assert "Ran 1 test" in told
    assert "FAILED (failures=1)" in told
    return lived


@pytest.fixture
def second(lived, tmp_path) -> Path:
    """Another clone, further on, with an environment of its own."""
    folder = shutil.copytree(lived.workspace.parent / "second", tmp_path / "elsewhere" / "clone", symlinks=True)
    for key, value in {"user.name": "Bo", "user.email": "bo@example.org", "commit.gpgsign": "false"}.items():
        git(folder, "config", key, value)
    git(folder, "remote", "remove", "origin")
    (folder / "later.txt").write_text("later\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Later")
    git(folder, "branch", "-m", "main")
    (folder / "a.txt").write_text("uncommitted\n")
    make_environment(folder)
    return folder


def everything(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of all that is in it, git's own files among them."""
    found = {}
    for path in folder.rglob("*"):
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, hashlib.sha256(content).hexdigest())
    return found


def test_no_command_drifts_in_another_clone_and_that_one_stays_as_it_was(lived, second, tmp_path):
    before = everything(second)
    done = replayed_with_tools(lived.notebook, second, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "Every tool call came out as recorded." in done.stdout
    assert re.search(
        r"^Workspace: commit [0-9a-f]{12} in a clone; linked, not copied: \.venv\.$", done.stdout, re.MULTILINE
    )
    assert everything(second) == before
    assert not list((tmp_path / "out" / "home").glob("kin-replay-*/workspace")), "the copy is gone"


def test_a_repository_of_a_stranger_runs_nothing(lived, second, tmp_path):
    canary = tmp_path / "canary"
    touch = f"touch {canary}; cat"
    (second / ".git" / "more").write_text(f'[core]\n\tfsmonitor = "{touch}"\n\tpager = "{touch}"\n')
    settings = {
        **{f"core.{key}": touch for key in ("fsmonitor", "sshCommand", "pager", "editor", "askPass")},
        **{f"filter.evil.{key}": touch for key in ("clean", "smudge", "process")},
        "diff.evil.textconv": touch,
        "diff.external": touch,
        "include.path": "more",
        "gpg.program": str(canary),
        "remote.origin.url": f"ext::sh -c '{touch}'",
        "extensions.partialClone": "origin",
        "alias.status": f"!{touch}",
        "commit.gpgSign": "true",
        "log.showSignature": "true",
        "credential.helper": f"!{touch}",
    }
    hooks = second / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    names = "pre-commit commit-msg prepare-commit-msg post-commit post-checkout post-index-change reference-transaction"
    for name in names.split():
        (hooks / name).write_text(f"#!/bin/sh\n{touch}\n")
        (hooks / name).chmod(0o755)
    with (second / ".git" / "config").open("a") as config:
        for key, value in settings.items():
            section, _, name = key.partition(".")
            between, _, name = name.rpartition(".")
            heading = f'{section} "{between}"' if between else section
            config.write(f'[{heading}]\n\t{name} = "{value}"\n')
    before = everything(second)
    done = replayed_with_tools(lived.notebook, second, tmp_path / "out")
    assert not canary.exists()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert everything(second) == before
    subprocess.run(["git", "status"], cwd=second, capture_output=True, check=False)
    assert canary.exists(), "or there was nothing to run"


def test_a_linked_worktree_is_a_workspace_as_well(lived, second, tmp_path):
    worktree = tmp_path / "worktree"
    git(second, "worktree", "add", "-q", str(worktree), "-b", "side", "HEAD~1")
    make_environment(worktree)
    before = everything(second)
    done = replayed_with_tools(lived.notebook, worktree, tmp_path / "out")
    assert done.returncode == 3, done.stdout + done.stderr
    drifts = [line for line in done.stdout.splitlines() if ": text: " in line or ": effect: " in line]
    assert len(drifts) == 1, "the copy is on the recorded branch"
    assert "side" in drifts[0], "which `git branch` lists too"
    assert everything(second) == before


def test_a_repository_without_the_recorded_commit_is_refused_at_first(lived, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    done = replayed_with_tools(lived.notebook, other, tmp_path / "out")
    assert done.returncode == 1
    said = (done.stdout + done.stderr).strip()
    assert re.search(r"does not contain the recorded commit [0-9a-f]{12}\.", said), said
    assert "--workspace PATH" in said
    assert not list((tmp_path / "out").glob("*.ipynb")), "nothing ran"


def test_playback_needs_no_repository(lived, tmp_path):
    shutil.copy(lived.notebook, tmp_path / "alone.ipynb")
    done = kin_nb_here("replay", "alone.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
