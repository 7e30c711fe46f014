"""Confine commands with bubblewrap: only the workspace and a private /tmp are writable.

A confined command has no network, sees no other processes and no sockets in /run. Sockets in other folders stay reachable unless
they are `closed`, because a read-only mount does not prevent connections. kin_nb's own folder looks empty. All other files can be
read.

Protected files are those that a program outside the confinement would run or trust later, without a request of the user:

* in every folder that git accepts as a repository, at any depth: config, config.worktree, commondir, hooks, and a .git that is a
  file or a link;
* at the top of the workspace, where editors and shells look: the sensitive names of the file tools that run something.

`scan_workspace` finds them before and after a command. Those that exist before are mounted read-only. Those that the command
creates are renamed and reported by `quarantine`. A mount cannot prevent this: a repository can be created at any path, and
bubblewrap leaves an empty file behind where it mounts over a missing path, which breaks git (an empty commondir).

The rest of a repository stays writable (commits, index and stash run nothing), and so do the files that the user runs by name:
tests, a Makefile, programs that settings name.
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

from kin_nb.core.file_history.file_state import recorded_name
from kin_nb.core.paths import kin_home, read_settings
from kin_nb.core.safety.shell.read_only.working_dir import HIDING
from kin_nb.core.sensitive_names import SECRET_NAMES, sensitive_reason

_PROGRAM = "bwrap"
_SECONDS = 10
_PRIVATE_TMP = Path("/tmp")  # noqa: S108  (private in the confinement)
_SERVICES = Path("/run")
_HIDDEN = (str(_PRIVATE_TMP), str(_SERVICES), "/dev", "/proc")
_NEEDED = ("/run/current-system", "/run/systemd/resolve")
"""Exceptions in the hidden folders: programs (NixOS), and name resolution."""
_ROOT_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
"""What root keeps: it may change the files of every owner, but not undo a mount."""


def problem(workspace: Path, *, network: bool) -> str:
    """Why commands cannot be confined here, and what to do. "" when a real attempt works."""
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
    """The sockets that programs may listen on: all socket files in each folder where a socket of this machine was bound.

    All of them, because some programs bind a socket under one name and link it to another (ssh's ControlPath). Sockets that
    were bound by a relative path, or in a container, are not found. Raises OSError when /proc cannot be read.
    """
    folders = set()
    for line in Path("/proc/net/unix").read_bytes().splitlines():
        path = os.fsdecode(line.split(maxsplit=7)[-1])
        if path.startswith("/"):  # a name with @ belongs to the network namespace, which is not shared
            folders.add(os.path.realpath(Path(path).parent))
    return sorted(path for folder in folders for path in _sockets_in(folder))


def _sockets_in(folder: str) -> Iterator[str]:
    """Skips entries that have disappeared or that cannot be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    yield entry.path


def confined(
    argv: Sequence[str], workspace: Path, found: WorkspaceScan, *, network: bool = False, closed: Iterable[str] = ()
) -> list[str]:
    """The command line that runs `argv` in the workspace, confined. The protected files in `found` are read-only.

    `closed`: sockets that confined programs cannot connect to; bubblewrap fails when one has disappeared. Named pipes stay
    reachable. The order matters: a later mount covers an earlier one.
    """
    place, temporary = str(workspace.resolve()), str(_PRIVATE_TMP)
    command = [_PROGRAM, "--die-with-parent", "--unshare-pid", "--unshare-ipc", *([] if network else ["--unshare-net"])]
    if os.geteuid() == 0:
        command += ["--cap-drop", "ALL", *(word for name in _ROOT_CAPABILITIES for word in ("--cap-add", name))]
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
"""For one scan."""
_GIT_FILES = ("config", "config.worktree", "commondir", "hooks")
_DATA = (*SECRET_NAMES, "*.pth")
"""Sensitive names that run nothing at the top of a workspace. (A .pth file is a model there; it runs in site-packages only.)"""
_HOOKS = re.compile(r'^[^#;\n]*?\bhookspath\s*=[ \t]*"?([^"#;\n]+)', re.IGNORECASE | re.MULTILINE)
_MAX_LISTED = 5

_Link: TypeAlias = tuple[int, int, int] | None
_Key: TypeAlias = tuple[int, int, str, _Link]
"""Folder (device, inode) and name, which stay the same when a parent folder is renamed. For a link also its target."""


@dataclass
class WorkspaceScan:
    """The protected files (`points`) and repositories of a workspace.

    `unseen`: folders that could not be read. When `cut` is true, the time limit was reached and the rest is in `unseen` too.
    """

    repositories: list[str] = field(default_factory=list)
    points: dict[str, _Key] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    cut: bool = False

    def mounts(self, workspace: Path) -> Iterator[str]:
        """The arguments for bubblewrap. A repository is mounted on itself, writable, because a mount point cannot be renamed."""
        root = os.path.realpath(workspace)
        places = dict.fromkeys(self.repositories, "--bind")
        places |= dict.fromkeys(map(os.path.realpath, self.points), "--ro-bind")
        for path, how in sorted(places.items(), key=lambda place: place[0].count("/")):
            if path.startswith(f"{root}/") and os.path.lexists(path):
                yield from (how, path, path)

    def knows(self, path: str) -> bool:
        """Whether the scan looked at this place: a file there would be in `points`."""
        while path:
            if path in self.unseen:
                return False
            path = path.rpartition("/")[0]
        return True


def scan_workspace(workspace: Path) -> WorkspaceScan:
    """Find the protected files, the nearest first. Links are not followed, and nothing is raised."""
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
    """Rename the protected files that did not exist `before`. Returns a report, "" when there is nothing to report."""
    now, known = scan_workspace(workspace), set(before.points.values())
    new = [path for path, key in now.points.items() if key not in known and before.knows(path)]
    root = Path(os.path.realpath(workspace))
    renamed = [_rename(root, path) for path in sorted(new, key=lambda path: path.count("/"), reverse=True)]
    sentences = []
    if renamed:
        sentences.append(
            f"[renamed, because programs outside of the confinement would run or trust it: {_list(renamed)}. "
            "The user may rename it back.]"
        )
    if before.cut or now.cut:
        sentences.append(
            f"[the search for files that git would run was not completed: it takes longer than {_SCAN_SECONDS:g} s]"
        )
    elif now.unseen - before.unseen:
        unseen = [_name(root, path) for path in sorted(now.unseen - before.unseen)]
        sentences.append(f"[not searched for files that git would run, because it cannot be read: {_list(unseen)}]")
    return "\n".join(sentences)


def _take(found: WorkspaceScan, folder: str, is_folder: dict[str, bool], top: str) -> None:
    """Add the protected files of one folder."""
    names = set()
    name = folder.rpartition("/")[2]
    if name == ".git" or ("HEAD" in is_folder and is_folder.keys() & {"objects", "refs", "commondir"}):
        found.repositories.append(folder)
        names |= is_folder.keys() & set(_GIT_FILES)
        if name == ".git":
            _take_hooks(found, folder, top)
    names |= {name for name, inside in is_folder.items() if name == ".git" and not inside}
    if folder == top:
        names |= {name for name in is_folder if _runs_later(name)}
    for name in names:
        _add(found, folder, name)


def _take_hooks(found: WorkspaceScan, git: str, top: str) -> None:
    """Add a folder of hooks elsewhere in the workspace (core.hooksPath)."""
    try:
        text = read_settings(Path(git, "config")) or ""
    except (OSError, ValueError):  # missing, too large, or not text
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
    except (OSError, ValueError):  # it has disappeared
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


def _rename(root: Path, path: str) -> str:
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
    more = f"; {len(items) - _MAX_LISTED} more" if len(items) > _MAX_LISTED else ""
    return "; ".join(items[:_MAX_LISTED]) + more
