"""Confinement of commands by bubblewrap: the workspace and a /tmp of their own are writable, all else is read-only.

No network, no other processes, no sockets of services in /run; those elsewhere are in reach unless they are `closed`, for
a read-only file system stops no connection. What runs later, outside, stays as it was: see run_later.py. kin_nb's own folder
is empty in there. Files may be read all the same, wherever they are.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kin_nb.core.paths import kin_home
from kin_nb.core.safety.shell.read_only.working_dir import HIDING
from kin_nb.core.tools.builtins.run_later import Look

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
            confined(["true"], workspace, Look(), network=network), capture_output=True, timeout=_SECONDS, check=False
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
    argv: Sequence[str], workspace: Path, found: Look, *, network: bool = False, closed: Iterable[str] = ()
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
