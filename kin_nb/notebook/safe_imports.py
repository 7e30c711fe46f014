"""kin_nb's own imports come from what is installed, not from the folder that a notebook is in.

IPython puts the current folder first on the path, so a `pydantic.py` in a folder that the user has just opened would run when
kin_nb needs pydantic: at `%load_ext`, or at any later first use. A finder answers such imports from the rest of the path. It
answers only when kin_nb, or a library that kin_nb called, imports: the user's own imports are as they are everywhere.
"""

from __future__ import annotations

import os
import site
import sys
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def install() -> None:
    """Install the finder once; `uninstall` removes it."""
    if _FINDER not in sys.meta_path:
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
        sys.meta_path.insert(place, _FINDER)


def uninstall() -> None:
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


class _InstalledFinder:
    """A finder before the usual one, for top-level modules only: submodules are found in their package."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for a module that only the current folder has."""
        if path is not None:
            return None
        here = [entry for entry in sys.path if _is_here(entry)]
        if not here or not _asked_by_kin_nb(sys._getframe(1)):  # noqa: SLF001  (inspect.currentframe is this)
            return None
        spec = PathFinder.find_spec(name, [entry for entry in sys.path if entry not in here])
        if spec is None and PathFinder.find_spec(name, here) is not None:
            why = f"No module named {name!r} is installed. The one in this folder is not used by kin_nb."
            raise ModuleNotFoundError(why, name=name)
        return spec


_FINDER = _InstalledFinder()


def _is_here(entry: str) -> bool:
    """Whether an entry of sys.path is the current folder or in it, and has no installed packages."""
    if not os.path.isabs(entry):  # noqa: PTH117  (many times; Path costs ten times as much)
        return True
    real = os.path.realpath(entry)
    if _is_below(real, _installed()):
        return False
    try:
        return _is_below(real, (os.path.realpath(os.getcwd()),))  # noqa: PTH109  (as above)
    except OSError:  # the folder was removed
        return False


@cache
def _installed() -> tuple[str, ...]:
    """Return the folders of the standard library, of installed packages and of kin_nb."""
    folders = [os.path.dirname(os.__file__), *site.getsitepackages(), str(Path(_PACKAGE).parent)]  # noqa: PTH120
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return tuple(map(os.path.realpath, folders))


@lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    return _is_below(os.path.realpath(file), _installed())


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip(os.sep)}{os.sep}") for folder in folders)


def _asked_by_kin_nb(frame: FrameType | None) -> bool:
    """Whether kin_nb imports: directly, or through an installed library that it called."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<") and not file.startswith("<frozen "):
            file = str(frame.f_globals.get("__file__", ""))  # code that a library made
        if file.startswith(_PACKAGE):
            return True
        if not file.startswith("<frozen ") and not _is_installed(file):
            return False  # a cell, or a module of the user
        frame = frame.f_back
    return False
