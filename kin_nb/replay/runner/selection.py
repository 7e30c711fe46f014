"""Which notebooks a command line names, and where the executed copy of each goes."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from kin_nb.replay.errors import ReplayError

_CHECKPOINTS = ".ipynb_checkpoints"


def selected(names: Sequence[str]) -> list[Path]:
    """The notebooks, each once: of a pattern (`**` is any folders) sorted and without checkpoints.

    A name that is no pattern, or that a file has, is taken as it is. Raises ReplayError for a pattern that nothing matches.
    """
    return list({path.absolute(): path for name in names for path in _matches(name)}.values())


def output_folders(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Where in `folder` each executed copy goes: as the notebooks lie below the folder that all are in.

    So of two that have one name none is overwritten.
    """
    parents = [path.absolute().parent for path in paths]
    top = os.path.commonpath(parents)
    return [folder / os.path.relpath(parent, top) for parent in parents]


def _matches(name: str) -> list[Path]:
    if not glob.has_magic(name) or os.path.lexists(name):
        return [Path(name)]
    # unlike Path.glob it leaves hidden folders out, and takes absolute patterns
    found = (Path(path) for path in sorted(glob.glob(name, recursive=True)))  # noqa: PTH207
    notebooks = [path for path in found if path.is_file() and _CHECKPOINTS not in path.parts]
    if not notebooks:
        raise ReplayError(f"No notebook matches {name}. In quotes, ** stands for any folders: 'sessions/**/*.ipynb'")
    return notebooks
