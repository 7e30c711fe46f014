"""kin_nb: the coding agent that lives in a notebook. Nothing heavy is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"


def load_ipython_extension(ip: InteractiveShell) -> None:
    """`%load_ext kin_nb`: registers %%kin and %kin. No thread, no file, no network until the first prompt."""
    from kin_nb.notebook import safe_imports  # noqa: PLC0415  (bare `import kin_nb` stays free)

    safe_imports.install()  # before the rest of kin_nb is imported
    from kin_nb.notebook.extension import load  # noqa: PLC0415

    load(ip)


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """`%unload_ext kin_nb`: leaves no thread, hook or name behind."""
    from kin_nb.notebook import safe_imports  # noqa: PLC0415
    from kin_nb.notebook.extension import unload  # noqa: PLC0415

    unload(ip)
    safe_imports.uninstall()
