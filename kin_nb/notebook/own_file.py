"""Which notebook this kernel serves, as far as a kernel can know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.replay.playback.surroundings import Surroundings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def surroundings(shell: InteractiveShell) -> Surroundings:
    """The process's own, with the name that VS Code leaves in the namespace."""
    vscode_file = shell.user_ns.get("__vsc_ipynb_file__")
    return Surroundings.here(vscode_file if isinstance(vscode_file, str) else None)
