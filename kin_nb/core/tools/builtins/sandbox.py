"""Confinement of commands by bubblewrap: the workspace and a /tmp of their own are writable, all else is read-only.

No network, no other processes. What runs later, outside, stays out of reach: git's hooks and settings in the workspace are
read-only, kin_nb's own folder is empty in there. Files may be read all the same, wherever they are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kin_nb.core.paths import kin_home

_PROGRAM = "bwrap"
_SECONDS = 10
_OF_ITS_OWN = Path("/tmp")  # noqa: S108  (in the confinement, it is private)


def problem(workspace: Path, *, network: bool) -> str:
    """Why commands cannot be confined here, and what helps; "" when they can, which is tried for real."""
    if sys.platform != "linux":
        return "bubblewrap is for Linux only"
    if shutil.which(_PROGRAM) is None:
        return "bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)"
    try:
        tried = subprocess.run(
            confined(["true"], workspace, network=network), capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run ({type(error).__name__})"
    if tried.returncode == 0:
        return ""
    said = " ".join(tried.stderr.decode(errors="replace").split())[:200]
    return f"bubblewrap is not allowed to make namespaces ({said or f'exit code {tried.returncode}'})"


def confined(argv: Sequence[str], workspace: Path, *, network: bool = False) -> list[str]:
    """The command line that runs `argv` in the workspace, confined. Later mounts lie over earlier ones."""
    command = [_PROGRAM, "--die-with-parent", "--unshare-pid", "--unshare-ipc", *([] if network else ["--unshare-net"])]
    command += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", str(_OF_ITS_OWN)]
    for programs in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if Path(programs).is_relative_to(_OF_ITS_OWN):
            command += ["--ro-bind", programs, programs]
    command += ["--bind", str(workspace), str(workspace), *_protected(workspace / ".git")]
    home = kin_home()
    if home.is_dir():
        command += ["--tmpfs", str(home.resolve())]
    return [*command, "--setenv", "TMPDIR", str(_OF_ITS_OWN), "--chdir", str(workspace), "--", *argv]


def _protected(git: Path) -> Iterator[str]:
    """git's hooks and settings: other programs run what they name, outside."""
    if not git.exists():
        return
    yield from ("--bind" if git.is_dir() else "--ro-bind", str(git), str(git))  # what is mounted cannot be renamed
    if not git.is_dir():  # a file that names the repository
        return
    if (git / "config").is_file():
        yield from ("--ro-bind", str(git / "config"), str(git / "config"))
    if (git / "hooks").is_dir():
        yield from ("--ro-bind", str(git / "hooks"), str(git / "hooks"))
    else:
        yield from ("--tmpfs", str(git / "hooks"))
