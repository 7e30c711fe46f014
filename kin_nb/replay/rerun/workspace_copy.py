"""A fresh copy of the workspace for tools to run in: the recorded commit if git has it, else the files as they are."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kin_nb.core.paths import kin_home, real_path
from kin_nb.render.text import literal, one_line
from kin_nb.replay.errors import ReplayError


def inner(workspace: Path, folder: Path, target: str) -> str:
    """`target` of a link in `folder`, which is below `workspace`, as it must be in a copy of the workspace.

    Relative where it leads into `workspace` by way of what lies outside of it; else as it is.
    """
    root, here = real_path(workspace), real_path(folder)
    steps = Path(target).parts
    on_the_way = [here.joinpath(*steps[:n]) for n in range(1, len(steps) + 1)]
    # `..` after a link is not where the text says: what is on the way is followed, the last step is not
    stays = [Path(os.path.normpath(place)) for place in on_the_way] + [real_path(place) for place in on_the_way[:-1]]
    if all(place.is_relative_to(root) for place in stays) and not Path(target).is_absolute():
        return target
    there = here / target
    named = real_path(there) if there.name == ".." else real_path(there.parent) / there.name
    within = next((place for place in (named, real_path(there)) if place.is_relative_to(root)), None)
    return target if within is None else os.path.relpath(within, here)


def turn_inward(copy: Path, workspace: Path) -> None:
    """Mend those links in `copy`, which is one of `workspace`."""
    for root, folders, files in os.walk(copy):
        here = Path(root)
        for link in (here / name for name in (*folders, *files)):
            if link.is_symlink():
                target = str(link.readlink())
                mended = inner(workspace, workspace / here.relative_to(copy), target)
                if mended != target:
                    link.unlink()
                    link.symlink_to(mended)


_LEFT_OUT = (".git", ".venv", "__pycache__")


@dataclass(frozen=True)
class Most:
    """How many files, and bytes of them, are copied at the most."""

    files: int = 50_000
    size: int = 2 * 1024**3

    def __str__(self) -> str:
        size = f"{self.size // 1024**3} GB" if self.size >= 1024**3 else f"{self.size // 1024**2} MB"
        return f"{self.files} files or {size}"


MOST = Most()


@dataclass(frozen=True)
class WorkspaceCopy:
    """`folder` is the copy; `says` is how it was made, for the report."""

    folder: Path
    says: str


class TooLargeError(ReplayError):
    """A workspace of more files than are copied."""


def copy_workspace(workspace: Path, commit: str | None, folder: Path, most: Most = MOST) -> WorkspaceCopy:
    """Fill `folder` (made here) from `workspace`. Never a git worktree: the repository is only read.

    Raises ReplayError when `workspace` is no folder, holds more than `most`, or cannot be copied.
    """
    # the path is the recording's word: of any length, and with what a terminal obeys
    shown = one_line(str(workspace), 400)
    if not _is_folder(workspace):
        raise ReplayError(f"The workspace {shown} is not there. Say where it is: kin-nb replay --workspace PATH")
    folder.mkdir(parents=True)
    if commit and (left_out := _extract_commit(workspace, commit, folder)) is not None:
        without = f" without links that lead out of it: {', '.join(left_out)}" if left_out else ""
        return WorkspaceCopy(folder, f"commit {commit[:12]}{without}")
    _check_size(workspace, most)
    try:
        shutil.copytree(workspace, folder, symlinks=True, ignore=_leaving_out(folder), dirs_exist_ok=True)
        turn_inward(folder, workspace)
    except (OSError, shutil.Error) as error:
        raise ReplayError(f"The workspace {shown} cannot be copied: {one_line(str(error), 400)}") from error
    missing = f" (git does not have commit {commit[:12]} here)" if commit else ""
    return WorkspaceCopy(folder, f"the files as they are now{missing}")


def _is_folder(path: Path) -> bool:
    """False also for what no folder can be called."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _extract_commit(workspace: Path, commit: str, folder: Path) -> list[str] | None:
    """Unpack the part of `commit` that lies under `workspace`: the links that are left out. None without git or the commit."""
    archive = _archive(workspace, commit)
    if archive is None:
        return None
    left_out: list[str] = []

    def kept(member: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
        if member.issym():
            target = inner(workspace, (workspace / member.name).parent, member.linkname)
            member = member.replace(linkname=target)
        try:
            return tarfile.data_filter(member, into)
        except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
            left_out.append(literal(member.name))
            return None

    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(folder, filter=kept)  # noqa: S202  (`kept` ends in data_filter)
            else:  # before Python 3.11.4: git itself keeps `..` and absolute paths out of its trees
                tar.extractall(folder)  # noqa: S202
                turn_inward(folder, workspace)
    except (tarfile.TarError, OSError) as error:
        raise ReplayError(f"Commit {commit[:12]} cannot be unpacked: {one_line(str(error), 400)}") from error
    return left_out


def _archive(workspace: Path, commit: str) -> bytes | None:
    """A tar file; None when there is no git, no repository or no such commit.

    Read through an empty repository that borrows the objects: `.git/config` is a stranger's as much as the notebook is, and
    git runs what filters and remotes it names.
    """
    with tempfile.TemporaryDirectory(prefix="kin-git-") as folder:
        try:
            where = _git(
                "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-path", "objects", at=workspace
            )
            top, objects = where.decode().splitlines()
            _git("init", "--quiet", "--bare", "--template=", "--object-format=sha1", folder, at=workspace)
            (Path(folder) / "objects" / "info").mkdir(exist_ok=True)
            (Path(folder) / "objects" / "info" / "alternates").write_text(f"{objects}\n")
            there = {"GIT_DIR": folder, "GIT_WORK_TREE": top}
            return _git("archive", "--format=tar", commit, at=workspace, **there)
        except (OSError, ValueError, subprocess.CalledProcessError):
            return None


def _git(*argv: str, at: Path, **environment: str) -> bytes:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *argv], cwd=at, env=kept | environment, capture_output=True, check=True)
    return done.stdout


def _leaving_out(copy: Path) -> Callable[[str, list[str]], set[str]]:
    """For copytree: what is no work, the copy itself, kin_nb's own folder with its keys, and pipes, sockets, devices.

    Folders are told by what they are: any link may have led to them.
    """
    apart = {_identity(copy), _identity(kin_home())} - {None}

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _LEFT_OUT or stays(Path(folder) / name)}

    def stays(path: Path) -> bool:
        mode = path.lstat().st_mode
        return not _is_plain(mode) or (not stat.S_ISREG(mode) and _identity(path) in apart)

    return left_out


def _identity(path: Path) -> tuple[int, int] | None:
    """Of what is there, or where a link leads; None for nothing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_plain(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _check_size(workspace: Path, most: Most) -> None:
    files = size = 0
    for root, folders, names in os.walk(workspace):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        files += len(names)
        size += sum((Path(root) / name).lstat().st_size for name in names)
        if files > most.files or size > most.size:
            raise TooLargeError(f"The workspace {one_line(str(workspace), 400)} is too large to copy (over {most}).")
