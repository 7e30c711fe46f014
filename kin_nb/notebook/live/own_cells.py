"""The cells above the one that runs: from the notebook's file where that can be known, else as this kernel ran them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.own_file import surroundings
from kin_nb.replay.errors import UnreadableNotebookError
from kin_nb.replay.format.loading import load_notebook

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


@dataclass(frozen=True)
class Cells:
    """`cells`: as in an .ipynb, first to last. `origin`: where they are from, in words."""

    cells: list[dict[str, Any]]
    origin: str


def cells_above(shell: InteractiveShell) -> Cells:
    """On the main thread, while a cell runs. A file that is not saved with this cell in it tells nothing."""
    cell_id = cell_io(shell).cell_id
    for path in surroundings(shell).own_files() if cell_id else ():
        try:
            cells: list[dict[str, Any]] = load_notebook(path)["cells"]
        except UnreadableNotebookError:  # it may be being written
            continue
        position = next((n for n, cell in enumerate(cells) if cell.get("id") == cell_id), None)
        if position is not None:
            return Cells(cells[:position], f"from {path.name} as it was last saved")
    sources = shell.history_manager.input_hist_raw[1:-1]  # the last is the one that runs; the first is empty
    return Cells(
        [{"cell_type": "code", "source": source} for source in sources if source.strip()],
        "as this kernel ran them, in that order, without outputs",
    )
