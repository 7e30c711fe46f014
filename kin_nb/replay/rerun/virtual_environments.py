"""Virtual environments of the workspace in a copy: folders of the copy's own with links to the original's files.

Programs of a session need the packages that it had (.venv, venv, env, node_modules), which no commit holds. To copy them would
take longer than most replays, and an installation from a recipe would need a network and give other versions. So they are
linked, for reading. What keeps the original as it is:

* folders are created, and files in them are links: what a program adds there (bytecode, an installed package) or removes is
  the copy's alone. Only who opens a linked file and writes into it changes the original; pip and npm replace files instead.
  A package of node_modules is linked as a whole, and so are Python packages beyond the first MOST_FILES files: bytecode of
  those that the original has not yet is written there, as it was when the session ran.
* a small text that contains the workspace's path is not a link but a copy with the path of the copy in it: the scripts of
  bin/, pyvenv.cfg, and what leads to an editable installation (*.pth and the like), which would import the original's code.
* `remove_links` takes all links away before the copy is removed: no removal follows one, nor changes permissions by one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kin_nb.core.paths import real_path


def relative_target(workspace: Path, folder: Path, target: str) -> str:
    """Return what a link to `target`, in a folder below `workspace`, must name in a copy of the workspace.

    A relative path where the link leads into `workspace` through an absolute path or through a folder outside of it;
    `target` itself otherwise.
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


def make_relative(copy: Path, workspace: Path) -> None:
    """Change each link in `copy`, a copy of `workspace`, that would lead back into `workspace`."""
    for root, folders, files in os.walk(copy):
        here = Path(root)
        for link in (here / name for name in (*folders, *files)):
            if link.is_symlink():
                target = str(link.readlink())
                target_in_copy = relative_target(workspace, workspace / here.relative_to(copy), target)
                if target_in_copy != target:
                    link.unlink()
                    link.symlink_to(target_in_copy)


_PYTHON = (".venv", "venv", "env")
_NODE = "node_modules"
ENVIRONMENT_NAMES = (*_PYTHON, _NODE)
MOST_FILES = 2_000
"""That are linked one by one: each takes a moment, when it is made and when it is removed."""
_MARKS = ("pyvenv.cfg", "conda-meta")
_TEXT = 200_000
"""Bytes of the largest text that may be a copy."""
_MOST_PLACES = 50
_ALWAYS = re.compile(r"bin|lib|lib64|python3\.\d+t?|site-packages")
"""Folders of an environment that are always created: they contain paths."""
_CACHES = frozenset({".cache", ".vite", ".vite-temp"})
"""Of node_modules: what programs rewrite in place."""


def is_environment(path: Path) -> bool:
    """Whether the folder at `path`, or the target of a link there, is an environment, by its name and contents."""
    try:
        if path.name in _PYTHON:
            return any((path / mark).exists() for mark in _MARKS)
        return path.name == _NODE and path.is_dir()
    except OSError:
        return False


def link_environments(original: Path, copy: Path, most: int = MOST_FILES) -> list[str]:
    """Link the environments of `original` into `copy`; return their paths. Environments that the copy has itself stay."""
    linked: list[str] = []
    for folder in _folders(copy):
        for name in ENVIRONMENT_NAMES:
            source = original / folder / name
            target = copy / folder / name
            if len(linked) < _MOST_PLACES and not os.path.lexists(target) and is_environment(source):
                with suppress(OSError):
                    _Mirror(original, copy, most).make(source, target)
                    linked.append((folder / name).as_posix())
    return linked


def remove_links(folder: Path) -> None:
    """Remove every link in `folder`, which is to be deleted.

    tempfile changes the permissions of what it cannot remove, before Python 3.11.8 also of what a link leads to. Commands may
    have put a link in any folder's place: none is followed.
    """
    for _, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        with suppress(OSError):
            os.fchmod(descriptor, 0o700)
        for name in (*folders, *names):
            with suppress(OSError):
                if stat.S_ISLNK(os.lstat(name, dir_fd=descriptor).st_mode):
                    os.unlink(name, dir_fd=descriptor)


def _folders(copy: Path) -> Iterator[Path]:
    """Yield the folders in `copy`, relative to it, without those of git and of environments."""
    for folder, folders, _ in os.walk(copy):
        yield Path(folder).relative_to(copy)
        folders[:] = sorted(name for name in folders if name not in (".git", *ENVIRONMENT_NAMES))


class _Mirror:
    """Links files from `original` into `copy`. `left`: the number of files that may still be linked one by one."""

    def __init__(self, original: Path, copy: Path, left: int) -> None:
        self._original, self._copy, self._left = original, copy, left
        self._named = re.compile(re.escape(os.fsencode(original)) + rb"(?![\w.-])")

    def make(self, source: Path, target: Path) -> None:
        """Create `target` with links to the contents of `source`. Raises OSError."""
        target.mkdir()
        node = source.name == _NODE
        for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
            if node and entry.name in _CACHES:
                continue
            self._entry(entry, target / entry.name, whole=node and not entry.name.startswith(("@", ".bin")))

    def _entry(self, entry: os.DirEntry[str], target: Path, *, whole: bool) -> None:
        if entry.is_symlink():
            self._link(entry, target)
        elif entry.is_dir():
            if whole or (self._left <= 0 and not _ALWAYS.fullmatch(entry.name)):
                target.symlink_to(Path(entry.path).absolute())
                return
            target.mkdir()
            for each in sorted(os.scandir(entry.path), key=lambda each: each.name):
                self._entry(each, target / each.name, whole=entry.name.startswith("@"))
        elif entry.is_file():
            self._left -= 1
            self._file(entry, target)

    def _link(self, entry: os.DirEntry[str], target: Path) -> None:
        """Copy a link. Relative ones lead to the files linked next to them; ones into the original lead into the copy."""
        path = Path(entry.path)
        named = str(path.readlink())
        if real_path(path.parent).is_relative_to(real_path(self._original)):
            named = relative_target(self._original, path.parent, named)
        if not Path(os.path.normpath(target.parent / named)).is_relative_to(self._copy):
            named = os.path.normpath(path.parent.absolute() / named)
        target.symlink_to(named)

    def _file(self, entry: os.DirEntry[str], target: Path) -> None:
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        if status.st_size <= _TEXT and _may_name_places(path, status.st_mode):
            with suppress(OSError):
                content = path.read_bytes()
                here = self._named.sub(lambda _: os.fsencode(self._copy), content)
                if here != content and b"\0" not in content:
                    target.write_bytes(here)
                    target.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
                    return
        target.symlink_to(path.absolute())


def _may_name_places(path: Path, mode: int) -> bool:
    """Whether a file may contain paths and is therefore read: programs, and path files of Python and conda."""
    kept = path.suffix in (".pth", ".cfg", ".egg-link") or path.name.startswith("__editable__")
    return kept or bool(mode & stat.S_IXUSR) or path.parent.name == "bin"
