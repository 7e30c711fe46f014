"""Which notebook this kernel serves, as far as a kernel can know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.replay.playback.surroundings import Surroundings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def surroundings(shell: InteractiveShell) -> Surroundings:
    """The process's own, with the name that VS Code leaves in the namespace."""
    return Surroundings.here(_vscode_file(shell))


def own_file(shell: InteractiveShell) -> Path | None:
    """The notebook's file, where it is known and there."""
    try:
        here = Surroundings(Path.cwd(), os.environ, vscode_file=_vscode_file(shell))
        return next(here.own_files(), None)
    except OSError:  # the folder that this process works in is gone
        return None


def _vscode_file(shell: InteractiveShell) -> str | None:
    name = shell.user_ns.get("__vsc_ipynb_file__")
    return name if isinstance(name, str) else None
