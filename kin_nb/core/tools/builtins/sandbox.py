"""Confinement of commands by bubblewrap: the workspace and a /tmp of their own are writable, all else is read-only.

No network, no other processes, no sockets of services (/run). What runs later, outside, stays as it was: see run_later.py.
kin_nb's own folder is empty in there. Files may be read all the same, wherever they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kin_nb.core.paths import kin_home
from kin_nb.core.safety.shell.for_readers import HIDING
from kin_nb.core.tools.builtins.run_later import Look

_PROGRAM = "bwrap"
_SECONDS = 10
_OF_ITS_OWN = Path("/tmp")  # noqa: S108  (in the confinement, it is private)
_SERVICES = Path("/run")
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


def confined(argv: Sequence[str], workspace: Path, found: Look, *, network: bool = False) -> list[str]:
    """The command line that runs `argv` in the workspace, confined; what was `found` there cannot be changed.

    Later mounts lie over earlier ones.
    """
    place, temporary = str(workspace.resolve()), str(_OF_ITS_OWN)
    command = [_PROGRAM, "--die-with-parent", "--unshare-pid", "--unshare-ipc", *([] if network else ["--unshare-net"])]
    if os.geteuid() == 0:
        command += ["--cap-drop", "ALL", *(word for power in _ROOTS_POWERS for word in ("--cap-add", power))]
    command += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", temporary]
    if _SERVICES.is_dir():
        command += ["--tmpfs", str(_SERVICES), *(word for path in _NEEDED for word in ("--ro-bind-try", path, path))]
    for programs in dict.fromkeys((sys.base_prefix, sys.prefix, str(HIDING.parent))):
        if any(Path(programs).is_relative_to(hidden) for hidden in (_OF_ITS_OWN, _SERVICES)):
            command += ["--ro-bind", programs, programs]
    command += ["--bind", place, place, *found.mounts(workspace)]
    home = kin_home()
    if home.is_dir():
        command += ["--tmpfs", str(home.resolve())]
    return [*command, "--setenv", "TMPDIR", temporary, "--chdir", place, "--", *argv]
