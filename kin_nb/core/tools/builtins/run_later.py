"""What programs outside the confinement run or trust by themselves, in the workspace: found before a command, and after it.

The rule: such a thing is read-only where it was there before; where a command made it, it is put aside (renamed), and
said so. That is in anything that git would take for a repository, however deep, its config, config.worktree, commondir
and hooks (git runs what they name) and a .git that points elsewhere; and what the file tools would ask for because it
runs later, at the top of the workspace, where editors and shells look. All else of a repository stays writable: commits,
the index and the stash run nothing. So does what the person runs by name: tests, a Makefile, programs that settings name.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TypeAlias

from kin_nb.core.file_history.file_state import recorded_name
from kin_nb.core.paths import read_settings
from kin_nb.core.sensitive_names import SECRET_NAMES, sensitive_reason

_SECONDS = 2.0
"""Of one look."""
_PIECES = ("config", "config.worktree", "commondir", "hooks")
_DATA = (*SECRET_NAMES, "*.pth")
"""What runs nothing at the top of a workspace: a .pth is a model there, and a start-up file in site-packages only."""
_HOOKS = re.compile(r'^[^#;\n]*?\bhookspath\s*=[ \t]*"?([^"#;\n]+)', re.IGNORECASE | re.MULTILINE)
_NAMED = 5

_Link: TypeAlias = tuple[int, int, int] | None
_Key: TypeAlias = tuple[int, int, str, _Link]
"""Folder (device, inode) and name: what is mounted keeps both, whatever is renamed above it. Of a link also what it is."""


@dataclass
class Look:
    """`points`: what has to stay as it is. `unseen`: folders that could not be looked into; or, when `cut`, not in time."""

    repositories: list[str] = field(default_factory=list)
    points: dict[str, _Key] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    cut: bool = False

    def mounts(self, workspace: Path) -> Iterator[str]:
        """bubblewrap's arguments. A repository is mounted on itself, writable: what is mounted cannot be renamed."""
        root = os.path.realpath(workspace)
        places = dict.fromkeys(self.repositories, "--bind")
        places |= dict.fromkeys(map(os.path.realpath, self.points), "--ro-bind")
        for path, how in sorted(places.items(), key=lambda place: place[0].count("/")):
            if path.startswith(f"{root}/") and os.path.lexists(path):
                yield from (how, path, path)

    def knows(self, path: str) -> bool:
        """Whether it would be in `points`, had it been there."""
        while path:
            if path in self.unseen:
                return False
            path = path.rpartition("/")[0]
        return True


def look(workspace: Path) -> Look:
    """Nearest first. Links are not followed; nothing raises."""
    found = Look()
    top = os.path.realpath(workspace)
    waiting = deque([top])
    deadline = time.monotonic() + _SECONDS
    while waiting:
        if time.monotonic() > deadline:
            found.cut = True
            found.unseen.update(waiting)
            return found
        folder = waiting.popleft()
        try:
            with os.scandir(folder) as entries:
                is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            found.unseen.add(folder)
            continue
        waiting.extend(f"{folder}/{name}" for name, inside in is_folder.items() if inside)
        _take(found, folder, is_folder, top)
    return found


def put_aside(workspace: Path, before: Look) -> str:
    """Rename what was not there `before`, and say so in a sentence for the model and the person; "" when there is none."""
    now, known = look(workspace), set(before.points.values())
    new = [path for path, key in now.points.items() if key not in known and before.knows(path)]
    root = Path(os.path.realpath(workspace))
    said = [_renamed(root, path) for path in sorted(new, key=lambda path: path.count("/"), reverse=True)]
    sentences = []
    if said:
        sentences.append(
            f"[put aside, for programs outside of the confinement run or trust it: {_list(said)}. "
            "The person may rename it back.]"
        )
    if before.cut or now.cut:
        sentences.append(f"[not all was looked through for what git would run: it takes longer than {_SECONDS:g} s]")
    elif now.unseen - before.unseen:
        unseen = [_name(root, path) for path in sorted(now.unseen - before.unseen)]
        sentences.append(f"[not looked through for what git would run, as it cannot be read: {_list(unseen)}]")
    return "\n".join(sentences)


def _take(found: Look, folder: str, is_folder: dict[str, bool], top: str) -> None:
    """The points in one folder."""
    names = set()
    name = folder.rpartition("/")[2]
    if name == ".git" or ("HEAD" in is_folder and is_folder.keys() & {"objects", "refs", "commondir"}):
        found.repositories.append(folder)
        names |= is_folder.keys() & set(_PIECES)
        if name == ".git":
            _take_hooks(found, folder, top)
    names |= {name for name, inside in is_folder.items() if name == ".git" and not inside}
    if folder == top:
        names |= {name for name in is_folder if _runs_later(name)}
    for name in names:
        _add(found, folder, name)


def _take_hooks(found: Look, git: str, top: str) -> None:
    """A folder of hooks that lies elsewhere in the workspace."""
    try:
        text = read_settings(Path(git, "config")) or ""
    except (OSError, ValueError):  # as above: no file at all, too large, no text
        return
    for match in _HOOKS.finditer(text):
        hooks = os.path.normpath(os.path.join(git.rpartition("/")[0], match[1].strip()))  # noqa: PTH118  (text)
        above = os.path.realpath(hooks.rpartition("/")[0])
        if f"{above}/".startswith(f"{top}/"):
            _add(found, above, hooks.rpartition("/")[2])


def _add(found: Look, folder: str, name: str) -> None:
    path = f"{folder}/{name}"
    link: _Link = None
    try:
        above, own = Path(folder).stat(), Path(path).lstat()
        if stat.S_ISLNK(own.st_mode):
            link = own.st_ctime_ns, *_target(path)
    except (OSError, ValueError):  # gone meanwhile
        return
    found.points[path] = (above.st_dev, above.st_ino, name, link)


def _target(link: str) -> tuple[int, int]:
    try:
        there = Path(link).stat()
    except OSError:
        return 0, 0
    return there.st_dev, there.st_ino


def _runs_later(name: str) -> bool:
    if name in {".git", ".envrc"}:
        return name == ".envrc"
    is_data = any(fnmatchcase(name.casefold(), pattern) for pattern in _DATA)
    return not is_data and sensitive_reason(PurePath(name)) is not None


def _renamed(root: Path, path: str) -> str:
    number = 1
    while os.path.lexists(aside := f"{path}.aside{number if number > 1 else ''}"):
        number += 1
    try:
        Path(path).rename(aside)
    except OSError as error:
        return f"{_name(root, path)} (which could NOT be renamed: {error.strerror})"
    return f"{_name(root, path)}, now {PurePath(recorded_name(aside)).name}"


def _name(root: Path, path: str) -> str:
    return recorded_name(os.path.relpath(path, root))


def _list(items: list[str]) -> str:
    more = f"; {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return "; ".join(items[:_NAMED]) + more
