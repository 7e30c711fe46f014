"""A workspace that commands change: looked at from outside, by other means than the history's own."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TypeAlias

from kin_nb.core.file_history import FileHistory
from kin_nb.core.records import FileChange

Tree: TypeAlias = dict[bytes, tuple[str, int, bytes]]


def tree(root: Path, *, besides: bytes = b".git") -> Tree:
    """Every name below `root`: what it is, its permissions where they are covered, its content or target."""
    found: Tree = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name != besides]
        for name in folders + files:
            path = b"/".join([folder, name])
            status = os.lstat(path)
            key = os.path.relpath(path, os.fsencode(root))
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", 0, os.readlink(path))  # noqa: PTH115  (bytes)
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", 0, b"")
            elif stat.S_ISREG(status.st_mode):
                found[key] = ("file", stat.S_IMODE(status.st_mode), Path(os.fsdecode(path)).read_bytes())
            else:
                found[key] = ("other", 0, b"")
    return found


def bash(root: Path, script: str) -> None:
    subprocess.run(["bash", "-c", script], cwd=root, check=False, capture_output=True, timeout=120)


def run(history: FileHistory, root: Path, script: str) -> tuple[tuple[FileChange, ...], str]:
    before = history.before_anything()
    bash(root, script)
    return history.changes(before)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-c", "user.name=n", "-c", "user.email=e", *arguments]
    return os.fsdecode(subprocess.run(command, cwd=root, capture_output=True, check=True).stdout)


def make_repository(root: Path) -> None:
    git(root, "init", "--quiet", "--template=")
    (root / "tracked.txt").write_text("1\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    (root / "tracked.txt").write_text("stashed\n")
    git(root, "stash", "--quiet")
    (root / "staged.txt").write_text("staged\n")
    git(root, "add", "staged.txt")
    (root / "tracked.txt").write_text("1\nand not staged\n")


def git_state(root: Path) -> tuple[object, ...]:
    return git(root, "status", "--porcelain", "-z"), git(root, "stash", "list", "-p"), tree(root / ".git")


def write(history: FileHistory, path: Path, text: str) -> tuple[FileChange, ...]:
    """As a file tool does."""
    before = history.before_writes([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return history.changes(before)[0]
