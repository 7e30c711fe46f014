"""`kin-nb merge`: what it writes, says, and exits with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kin_nb.core.text import counted
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.merging import MergedRecording, merge_notebooks
from kin_nb.replay.recording import record_label
from kin_nb.replay.saving.writing import write_notebook

DONE, FAILED, LOOK = 0, 1, 3


def merge(base: Path, a: Path, b: Path, out: Path | None, *, force: bool) -> int:
    """0 merged, 1 nothing was written, 3 merged, with cells between which a person has to choose."""
    target = Path(os.path.realpath(out or _beside(a)))  # a link's own file: the workspace's path is relative to it
    if target.exists() and not force:
        return _fail(f"Not merged: {target.name} exists.\nChoose another name with -o, or use --force.")
    try:
        folders = (Path(os.path.realpath(a)).parent, target.parent)
        found = merge_notebooks(load_notebook(base), load_notebook(a), load_notebook(b), folders)
        write_notebook(found.nb, target, replacing=force)
    except (ReplayError, OSError) as error:
        return _fail(f"{target} cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error))
    ours = Path(os.path.realpath(a))  # for git a copy, which vanishes with its name
    into = "" if target == ours else f" into {out or target}"
    print(f"Merged{into}. {_said(found.merged)}")  # noqa: T201
    for line in found.messages:
        print(line)  # noqa: T201
    if found.notes:
        what = f"{counted(found.notes, 'cell')} {'was' if found.notes == 1 else 'were'} changed in both notebooks"
        print(f"{what}: search for **Merged:** in the notebook and choose.")  # noqa: T201
        return LOOK
    return DONE


def _beside(a: Path) -> Path:
    """`NAME.kin.ipynb` gives `NAME.merged.kin.ipynb`."""
    kin = ".kin" if a.stem.endswith(".kin") else ""
    return a.with_name(f"{a.stem.removesuffix('.kin')}.merged{kin}.ipynb")


def _fail(message: str) -> int:
    print(message, file=sys.stderr)  # noqa: T201
    return FAILED


def _said(merged: MergedRecording) -> str:
    """Say which side has new turns, and where the conversation continues."""
    if merged.kind == "same":
        return "A and B have the same turns."
    if merged.kind != "fork":
        return f"Only {merged.kind.upper()} has new turns."
    last = f" The conversation continues after {record_label(merged.head)}." if merged.head is not None else ""
    return f"A and B both have new turns, so the session has two branches; every cell shows its own answer.{last}"
