"""The notebook that this kernel serves, as far as a kernel can know: its file, its folder, and what its outputs carry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.options import KinError
from kin_nb.replay.playback.surroundings import Surroundings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent
    from kin_nb.core.records import SessionRecord

_MOST_FILES = 200


@dataclass(frozen=True)
class Ran:
    """How a cell ran last: its text, and the number that its front end shows for it (None: it does not count)."""

    source: str
    count: int | None


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


def notebook_folder(shell: InteractiveShell) -> Path:
    """Return the folder of the notebook's file, or else the working directory; absolute."""
    here = surroundings(shell)
    own = next(here.own_files(), None)
    return (own.parent if own is not None else here.cwd).resolve()


def carried_by(shell: InteractiveShell, agent: Agent, record: SessionRecord) -> dict[str, Any]:
    """Return the metadata for the last output of a turn, or of a command that moved the conversation: its record.

    It lets a notebook play that only its front end ever saved.
    """
    from kin_nb.replay.format.carrying import carried  # noqa: PLC0415  (pydantic: not at %load_ext)
    from kin_nb.replay.recording import SessionMeta  # noqa: PLC0415

    return carried(record, SessionMeta.of_session(agent.header, notebook_folder(shell)))


def renamed_file(shell: InteractiveShell, ran: Mapping[str, Ran]) -> Path | None:
    """The notebook with the cells that ran here (`ran`: by cell id), next to where it was when this kernel began.

    Of copies, the one that holds most of them as they ran last. Session notebooks are exports, and never meant. Raises
    KinError where two hold equally many of them and differ.
    """
    if not ran:
        return None
    try:
        files = islice(surroundings(shell).siblings(), _MOST_FILES)
        found = [(_held(nb, ran), path, nb) for path in files if (nb := _with_one_of(path, ran)) is not None]
    except OSError:  # the folder is gone
        return None
    if not found:
        return None
    most = max(held for held, _, _ in found)
    best = [(path, nb) for held, path, nb in found if held == most]
    if any(nb["cells"] != best[0][1]["cells"] for _, nb in best):
        names = " and ".join(path.name for path, _ in best)
        raise KinError(
            f"{names} both hold the cells that ran here, and differ: which of them is this notebook is not known, so nothing was "
            f"written.\nSave it (Ctrl-S), and run this again; or name it: kin-nb save {best[0][0].name} OUT.ipynb"
        )
    return max((path for path, _ in best), key=lambda path: path.stat().st_mtime_ns)


def _with_one_of(path: Path, ran: Mapping[str, Ran]) -> Any:
    """What `path` holds, if one of those cells is in it and it is no session notebook; else None."""
    from kin_nb.replay.errors import UnreadableNotebookError  # noqa: PLC0415  (%load_ext reads no notebooks)
    from kin_nb.replay.format.in_notebook import session_of  # noqa: PLC0415
    from kin_nb.replay.format.loading import load_notebook, read_text  # noqa: PLC0415

    try:
        text = read_text(path)
        if not any(cell_id in text for cell_id in ran):
            return None
        nb = load_notebook(path)
    except UnreadableNotebookError:
        return None
    return nb if not session_of(nb)[0] and any(cell.get("id") in ran for cell in nb["cells"]) else None


def _held(nb: Any, ran: Mapping[str, Ran]) -> tuple[int, int, int]:
    """How many of the cells that ran it holds: with the number of their last run, with the text of it, at all."""
    cells = [(cell, ran[cell["id"]]) for cell in nb["cells"] if cell.get("id") in ran]
    numbered = sum(how.count is not None and cell.get("execution_count") == how.count for cell, how in cells)
    return numbered, sum(cell["source"] == how.source for cell, how in cells), len(cells)


def _vscode_file(shell: InteractiveShell) -> str | None:
    name = shell.user_ns.get("__vsc_ipynb_file__")
    return name if isinstance(name, str) else None
