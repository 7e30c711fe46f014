"""Confinement of commands by bubblewrap: the workspace and a /tmp of their own are writable, all else is read-only.

No network, no other processes, no sockets of services in /run; those elsewhere are in reach unless they are `closed`, for
a read-only file system stops no connection. kin_nb's own folder is empty in there. Files may be read all the same, wherever
they are.

What programs outside the confinement run or trust by themselves is found before a command (`scan_workspace`) and after it.
Such a thing is read-only where it was there before; where a command made it, `quarantine` renames it and reports that. It is,
in anything that git would take for a repository, however deep, its config, config.worktree, commondir and hooks (git runs what
they name) and a .git that points elsewhere; and what the file tools would ask for because it runs later, at the top of the
workspace, where editors and shells look. All else of a repository stays writable: commits, the index and the stash run nothing.
So does what the user runs by name: tests, a Makefile, programs that settings name.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TypeAlias

from kin_nb.core.file_history.names import recorded_name
from kin_nb.core.paths import kin_home, read_settings
from kin_nb.core.safety.shell.for_readers import HIDING
from kin_nb.core.sensitive_names import SECRET_NAMES, sensitive_reason

_PROGRAM = "bwrap"
_SECONDS = 10
_OF_ITS_OWN = Path("/tmp")  # noqa: S108  (in the confinement, it is private)
_SERVICES = Path("/run")
_HIDDEN = (str(_OF_ITS_OWN), str(_SERVICES), "/dev", "/proc")
_NEEDED = ("/run/current-system", "/run/systemd/resolve")
"""Of these: programs (NixOS), and the names of servers."""
_ROOTS_POWERS = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
"""What is left of root's: to change files whoever owns them, and not to undo a mount."""


def problem(workspace: Path, *, network: bool) -> str:
    """Why commands cannot be confined here, and what helps; "" when they can, which is tried for real."""
    if sys.platform != "linux":
        return "bubblewrap is for Linux only"
    if shutil.which(_PROGRAM) is None:
        return "bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)"
    try:
        tried = subprocess.run(
            confined(["true"], workspace, WorkspaceScan(), network=network),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run ({type(error).__name__})"
    if tried.returncode == 0:
        return ""
    said = " ".join(tried.stderr.decode(errors="replace").split())[:200]
    return f"bubblewrap is not allowed to make namespaces ({said or f'exit code {tried.returncode}'})"


def sockets() -> list[str]:
    """Socket files that programs may listen at now: all in each folder where one of this machine's sockets was bound.

    All, since some programs bind a socket by one name and link it to another (ssh's ControlPath). Not found: one that was
    bound by a relative path, or in a container. Raises OSError when the system does not tell.
    """
    folders = set()
    for line in Path("/proc/net/unix").read_bytes().splitlines():
        path = os.fsdecode(line.split(maxsplit=7)[-1])
        if path.startswith("/"):  # one with @ belongs to a network, and goes with it
            folders.add(os.path.realpath(Path(path).parent))
    return sorted(path for folder in folders for path in _sockets_in(folder))


def _sockets_in(folder: str) -> Iterator[str]:
    """What is gone meanwhile is left out, and what only others may open."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    yield entry.path


def confined(
    argv: Sequence[str], workspace: Path, found: WorkspaceScan, *, network: bool = False, closed: Iterable[str] = ()
) -> list[str]:
    """The command line that runs `argv` in the workspace, confined; what was `found` there cannot be changed.

    `closed`: sockets that nothing in there can connect to; bubblewrap fails when one is gone. Named pipes stay open.
    Later mounts lie over earlier ones.
    """
    place, temporary = str(workspace.resolve()), str(_OF_ITS_OWN)
    command = [_PROGRAM, "--die-with-parent", "--unshare-pid", "--unshare-ipc", *([] if network else ["--unshare-net"])]
    if os.geteuid() == 0:
        command += ["--cap-drop", "ALL", *(word for power in _ROOTS_POWERS for word in ("--cap-add", power))]
    command += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", temporary]
    if _SERVICES.is_dir():
        command += ["--tmpfs", str(_SERVICES), *(word for path in _NEEDED for word in ("--ro-bind-try", path, path))]
    all_programs = dict.fromkeys((sys.base_prefix, sys.prefix, str(HIDING.parent)))
    for programs in all_programs:
        if _is_below(programs, (temporary, str(_SERVICES))):
            command += ["--ro-bind", programs, programs]
    command += ["--bind", place, place, *found.mounts(workspace)]
    for path in closed:
        if not _is_below(path, _HIDDEN) or _is_below(path, (place, *all_programs, *_NEEDED)):
            command += ["--ro-bind", "/dev/null", path]
    home = kin_home()
    if home.is_dir():
        command += ["--tmpfs", str(home.resolve())]
    return [*command, "--setenv", "TMPDIR", temporary, "--chdir", place, "--", *argv]


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


_SCAN_SECONDS = 2.0
"""Of one scan."""
_PIECES = ("config", "config.worktree", "commondir", "hooks")
_DATA = (*SECRET_NAMES, "*.pth")
"""What runs nothing at the top of a workspace: a .pth is a model there, and a start-up file in site-packages only."""
_HOOKS = re.compile(r'^[^#;\n]*?\bhookspath\s*=[ \t]*"?([^"#;\n]+)', re.IGNORECASE | re.MULTILINE)
_NAMED = 5

_Link: TypeAlias = tuple[int, int, int] | None
_Key: TypeAlias = tuple[int, int, str, _Link]
"""Folder (device, inode) and name: what is mounted keeps both, whatever is renamed above it. Of a link also what it is."""


@dataclass
class WorkspaceScan:
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


def scan_workspace(workspace: Path) -> WorkspaceScan:
    """Find what must stay as it is, nearest first. Links are not followed; nothing is raised."""
    found = WorkspaceScan()
    top = os.path.realpath(workspace)
    waiting = deque([top])
    deadline = time.monotonic() + _SCAN_SECONDS
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


def quarantine(workspace: Path, before: WorkspaceScan) -> str:
    """Rename what was not there `before`, and say so in a sentence for the model and the person; "" when there is none."""
    now, known = scan_workspace(workspace), set(before.points.values())
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
        sentences.append(
            f"[not all was looked through for what git would run: it takes longer than {_SCAN_SECONDS:g} s]"
        )
    elif now.unseen - before.unseen:
        unseen = [_name(root, path) for path in sorted(now.unseen - before.unseen)]
        sentences.append(f"[not looked through for what git would run, as it cannot be read: {_list(unseen)}]")
    return "\n".join(sentences)


def _take(found: WorkspaceScan, folder: str, is_folder: dict[str, bool], top: str) -> None:
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


def _take_hooks(found: WorkspaceScan, git: str, top: str) -> None:
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


def _add(found: WorkspaceScan, folder: str, name: str) -> None:
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
