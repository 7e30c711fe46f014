"""Where the workspace's git stands: the commit that a re-execution unpacks, and the branch. Read from files, no process."""

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
"""What git takes for a reference's name, and a path that stays in refs/."""
LONGEST_BRANCH = 1024
_MOST_BYTES = 64 * 1024
"""Of a file that holds one line."""
_MOST_LINKS = 5
"""References that name another reference, followed one after the other."""


@dataclass(frozen=True)
class GitHead:
    """HEAD's commit (None before the first one) and branch (None when detached); both None outside git."""

    commit: str | None = None
    branch: str | None = None

    @property
    def recorded_branch(self) -> str | None:
        """The branch at the commit, "" when detached; None without a commit, and for a name that is not understood."""
        if self.commit is None or self.branch is None:
            return None if self.commit is None else ""
        known = (
            len(self.branch) <= LONGEST_BRANCH and "\ufffd" not in self.branch and is_ref(f"refs/heads/{self.branch}")
        )
        return self.branch if known else None


@dataclass(frozen=True)
class GitPlace:
    """`top`: the folder with the `.git`. `own`: the git folder, `shared`: that of all worktrees, with objects and branches."""

    top: Path
    own: Path
    shared: Path


def git_place(workspace: Path) -> GitPlace | None:
    """The repository around `workspace`, as files say it; None outside of git, and in a repository without files."""
    for folder in (workspace, *workspace.parents):
        own = _git_folder(folder / ".git")
        if own is not None:
            return GitPlace(folder, own, own / (_text(own / "commondir") or "."))
    return None


def git_head(workspace: Path) -> GitHead:
    """Uncommitted changes are not in it: a rerun shows them as drift. Linked worktrees and packed references count.

    Nothing that these files hold raises: what is not understood is None, as with SHA-256 and reftable repositories.
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
    return GitHead(commit, None if branch == ".invalid" else branch)  # reftable's stand-in for a name


def is_ref(name: str) -> bool:
    """Whether `name` (`refs/heads/main`) is one that git takes, of a branch, a remote branch or a tag."""
    return _NAME.fullmatch(name) is not None


def head_commit(workspace: Path) -> str | None:
    """The commit of HEAD; None outside git and before the first commit."""
    return git_head(workspace).commit


def _git_folder(path: Path) -> Path | None:
    """`.git` itself, or the folder that it names: so it is in linked worktrees and submodules."""
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
    """The first bytes of a regular file, stripped; "" for anything else: reading a pipe would never end. No NUL is in a path."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
                return "" if "\0" in text else text
    except (OSError, ValueError):
        pass
    return ""
