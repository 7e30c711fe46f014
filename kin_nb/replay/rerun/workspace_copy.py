"""A fresh copy of the workspace for tools to run in: a clone at the recorded commit, else the files as they are.

clone.py says why nothing that runs in a clone reaches the original, environments.py why virtual environments are links.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kin_nb.core.paths import kin_home
from kin_nb.core.workspace_commit import git_place
from kin_nb.render.text import one_line, reveal_hidden
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.git_clone import Clone, CommitContents, MissingCommitError, NoGitError
from kin_nb.replay.rerun.virtual_environments import is_environment, link_environments, make_relative, remove_links

_LEFT_OUT = (".git", ".venv", "__pycache__")


@dataclass(frozen=True)
class CopyLimit:
    """The limit of a copy: number of files, and bytes."""

    files: int = 50_000
    size: int = 2 * 1024**3

    def __str__(self) -> str:
        size = f"{self.size // 1024**3} GB" if self.size >= 1024**3 else f"{self.size // 1024**2} MB"
        return f"{self.files} files or {size}"


DEFAULT_LIMIT = CopyLimit()


@dataclass(frozen=True)
class WorkspaceCopy:
    """`folder` is the copy of the workspace; `description` is how it was made, for the report."""

    folder: Path
    description: str


class TooLargeError(ReplayError):
    """The workspace is larger than the limit of a copy."""


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder for copies within the block. Links in it are removed before it is deleted."""
    with TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve()
        try:
            yield folder
        finally:
            remove_links(folder)


def copy_root(workspace: Path, commit: str | None) -> Path:
    """Return the folder to copy: the repository of `workspace` if the commit is known, otherwise `workspace` itself."""
    place = git_place(workspace) if commit else None
    return workspace if place is None else place.top


def copy_workspace(
    workspace: Path,
    commit: str | None,
    folder: Path,
    most: CopyLimit = DEFAULT_LIMIT,
    *,
    branch: str | None = None,
    linked: bool = True,
) -> WorkspaceCopy:
    """Create `folder` as a copy of `copy_root(workspace, commit)`. The original is only read.

    `branch`: the branch to check out, as in Clone. `linked`: with links to virtual environments. Raises ReplayError when
    `workspace` is not a folder, is not in a repository with `commit`, holds more than `most`, or cannot be copied.
    """
    # the path is the recording's word: of any length, and with what a terminal obeys
    shown = one_line(str(workspace), 400)
    if not _is_folder(workspace):
        raise ReplayError(f"Workspace folder {shown} not found.\nGive it: kin-nb replay --workspace PATH")
    reason = "no git commit recorded"
    if commit:
        try:
            return _cloned(workspace, commit, folder, most, branch, linked=linked)
        except NoGitError:
            reason = f"git is not installed, so not commit {commit[:12]}"
            shutil.rmtree(folder)
            folder = folder / workspace.relative_to(copy_root(workspace, commit))
    folder.mkdir(parents=True)
    _check_size(workspace, most, linked=linked)
    try:
        leaving_out = _leaving_out(folder, linked=linked)
        shutil.copytree(workspace, folder, symlinks=True, ignore=leaving_out, dirs_exist_ok=True)
        make_relative(folder, workspace)
        environments = link_environments(workspace, folder) if linked else []
    except (OSError, shutil.Error) as error:
        raise ReplayError(f"The workspace {shown} cannot be copied: {one_line(str(error), 400)}") from error
    return WorkspaceCopy(folder, f"a copy of your current files ({reason}){_as_said(environments)}")


def _cloned(
    workspace: Path, commit: str, folder: Path, most: CopyLimit, branch: str | None, *, linked: bool
) -> WorkspaceCopy:
    """Clone the repository at the commit. Raises ReplayError, NoGitError."""
    shown = one_line(str(workspace), 400)
    place = git_place(workspace)
    other = (
        f"Workspace folder {shown} does not contain the recorded commit {commit[:12]}.\n"
        "Give the folder of that repository: kin-nb replay --workspace PATH"
    )
    if place is None:
        raise ReplayError(other)
    folder.mkdir(parents=True)
    clone = Clone(place, commit, folder, branch)
    try:
        clone.borrow()
        part = _part(clone, workspace, workspace.relative_to(place.top).as_posix(), most)
        left_out = clone.unpack(part)
        copied = folder / workspace.relative_to(place.top)
        copied.mkdir(parents=True, exist_ok=True)
        environments = link_environments(place.top, folder) if linked else []
        clone.exclude("".join(f"/{_as_pattern(name)}\n" for name in environments))
    except MissingCommitError as error:
        raise ReplayError(other) from error
    except (NoGitError, TooLargeError):
        raise
    except (ReplayError, OSError) as error:
        raise ReplayError(
            f"Commit {commit[:12]} of {shown} cannot be checked out: {one_line(str(error), 400)}"
        ) from error
    without = f", without links that lead out of it: {', '.join(left_out)}" if left_out else ""
    alone = f" in {reveal_hidden(part.below)} alone, since the whole is over {most}" if part.below else ""
    return WorkspaceCopy(copied, f"commit {commit[:12]} in a clone{alone}{without}{_as_said(environments)}")


def _part(clone: Clone, workspace: Path, below: str, most: CopyLimit) -> CommitContents:
    """Choose what to unpack: all, or only the workspace if all is too large. Raises TooLargeError, ReplayError."""
    for part in (clone.measure(), *([clone.measure(below)] if below != "." else [])):
        if part.files <= most.files and part.size <= most.size:
            return part
    raise _too_large(workspace, most)


def _as_said(environments: list[str]) -> str:
    return f"; linked, not copied: {', '.join(map(reveal_hidden, environments))}" if environments else ""


def _as_pattern(name: str) -> str:
    return "".join(f"\\{c}" if c in "\\*?[ " else c for c in name)


def _is_folder(path: Path) -> bool:
    """Whether `path` is a folder; False also for an invalid name."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _leaving_out(copy: Path, *, linked: bool) -> Callable[[str, list[str]], set[str]]:
    """Make copytree skip _LEFT_OUT, the copy itself, kin_nb's own folder with its keys, and pipes, sockets, devices.

    Folders are identified by inode: any link may have led to them.
    """
    apart = {_identity(copy), _identity(kin_home())} - {None}

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {
            name for name in names if _is_left_out(Path(folder) / name, linked=linked) or stays(Path(folder) / name)
        }

    def stays(path: Path) -> bool:
        mode = path.lstat().st_mode
        return not _is_plain(mode) or (not stat.S_ISREG(mode) and _identity(path) in apart)

    return left_out


def _is_left_out(path: Path, *, linked: bool) -> bool:
    return path.name in _LEFT_OUT or (linked and is_environment(path))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file, or of the target of a link; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_plain(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _check_size(workspace: Path, most: CopyLimit, *, linked: bool) -> None:
    files = size = 0
    for root, folders, names in os.walk(workspace):
        folders[:] = [name for name in folders if not _is_left_out(Path(root) / name, linked=linked)]
        files += len(names)
        size += sum((Path(root) / name).lstat().st_size for name in names)
        if files > most.files or size > most.size:
            raise _too_large(workspace, most)


def _too_large(workspace: Path, most: CopyLimit) -> TooLargeError:
    return TooLargeError(f"The workspace {one_line(str(workspace), 400)} is too large to copy (over {most}).")
