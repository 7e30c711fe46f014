"""Read the workspace's current git commit and branch from git's files, without running git."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"ref: (refs/(?!.*(?:\.\.|//))[^\s\0]+)")
_NAME = re.compile(
    r"""(?x)
    (?!.*(?: \.\. | // | /\. | @\{ | \.lock(?:/|\Z) ))
    refs/(?:heads|remotes|tags)/(?!-) [^\x00-\x20~^:?*\[\\\x7f]+ (?<![./])
    """
)
"""Matches a valid name of a git reference, whose path stays inside refs/."""
LONGEST_BRANCH = 1024
_MOST_BYTES = 64 * 1024
"""Most bytes to read of a file that has one line."""
_MOST_LINKS = 5
"""Most symbolic references to follow in a row."""


@dataclass(frozen=True)
class GitHead:
    """HEAD's commit (None before the first one) and branch (None when detached). Both are None outside git."""

    commit: str | None = None
    branch: str | None = None

    @property
    def recorded_branch(self) -> str | None:
        """The branch at the commit, "" when detached; None without a commit, and for a name that is not valid."""
        if self.commit is None or self.branch is None:
            return None if self.commit is None else ""
        known = (
            len(self.branch) <= LONGEST_BRANCH and "\ufffd" not in self.branch and is_ref(f"refs/heads/{self.branch}")
        )
        return self.branch if known else None


@dataclass(frozen=True)
class GitPlace:
    """A git repository. `top`: the folder with `.git`. `own`: the git folder; `shared`: the one that all worktrees share."""

    top: Path
    own: Path
    shared: Path


def git_place(workspace: Path) -> GitPlace | None:
    """Find the repository that contains `workspace`; None outside git, and in a bare repository."""
    for folder in (workspace, *workspace.parents):
        own = _git_folder(folder / ".git")
        if own is not None:
            return GitPlace(folder, own, own / (_text(own / "commondir") or "."))
    return None


def git_head(workspace: Path) -> GitHead:
    """Return HEAD's commit and branch; also in linked worktrees, and with packed references.

    Raises nothing for the contents of git's files: a value that cannot be read is None, for example in repositories with
    SHA-256 or reftable. Uncommitted changes do not count; when the tools run again, they show as differences.
    """
    place = git_place(workspace)
    if place is None:
        return GitHead()
    own, shared = place.own, place.shared
    target = _text(own / "HEAD")
    named = _REF.fullmatch(target)
    branch = named[1].removeprefix("refs/heads/") if named and named[1].startswith("refs/heads/") else None
    for _ in range(_MOST_LINKS):
        link = _REF.fullmatch(target)
        if link is None:
            break
        target = _text(own / link[1]) or _text(shared / link[1]) or _packed(shared / "packed-refs", link[1])
    commit = target if _COMMIT.fullmatch(target) else None
    return GitHead(commit, None if branch == ".invalid" else branch)  # the placeholder that reftable writes into HEAD


def is_ref(name: str) -> bool:
    """Whether `name` (`refs/heads/main`) is a valid name of a branch, a remote branch or a tag."""
    return _NAME.fullmatch(name) is not None


def head_commit(workspace: Path) -> str | None:
    """Return the commit of HEAD; None outside git and before the first commit."""
    return git_head(workspace).commit


def _git_folder(path: Path) -> Path | None:
    """Return `.git`, or the folder that it names if it is a file, as in linked worktrees and submodules."""
    try:
        if path.is_dir():
            return path if (path / "HEAD").exists() else None
    except OSError:
        return None
    text = _text(path)
    return path.parent / text.removeprefix("gitdir:").strip() if text.startswith("gitdir:") else None


def _packed(path: Path, name: str) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.rstrip("\n").endswith(f" {name}"):
                    return line[:40]
    except (OSError, ValueError):
        pass
    return ""


def _text(path: Path) -> str:
    """Return the first bytes of a regular file, stripped; "" for anything else, because a pipe could block."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
                return "" if "\0" in text else text
    except (OSError, ValueError):
        pass
    return ""
