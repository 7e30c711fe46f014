"""Two session notebooks that went on from one, joined: their recordings by recordings.py, their cells by cells.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kin_nb.render.text import count
from kin_nb.replay.book import Book
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.embedded import KEY as SIDECAR
from kin_nb.replay.format.embedded import is_embedding
from kin_nb.replay.format.in_notebook import read_saved
from kin_nb.replay.merging.cells import comparable, merge_cells
from kin_nb.replay.merging.recordings import Merged, merge_recordings
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.named_recording import in_folder
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.own_cells import drop_commands, marks_of_both, with_marks
from kin_nb.replay.saving.prompt_cells import about_stops


@dataclass(frozen=True)
class MergedNotebook:
    """`notes`: how many cells say that a person has to choose. `merged.recording` is what `nb` plays, but for cells' keys.

    `said`: what was left out, and where a replay stops.
    """

    nb: Any
    merged: Merged
    notes: int
    said: Sequence[str]


def merge_notebooks(base: Any, a: Any, b: Any, folders: tuple[Path, Path] = (Path(), Path())) -> MergedNotebook:
    """A session notebook of what both added to `base`, in the form of `a` (with a sidecar, portable).

    `folders`: A's, and that of the new notebook. Raises ReplayError naming the notebook and the turn.
    """
    merged = merge_recordings(_read("BASE", base), _read("A", a), _read("B", b))
    cells = merge_cells(comparable(base, "BASE"), comparable(a, "A"), comparable(b, "B"))
    recording = in_folder(merged.recording, *folders)
    commands = drop_commands(cells.nb, recording)
    form = SaveOptions(portable=any(map(is_embedding, a["cells"])), sidecar=SIDECAR in a["metadata"]["kin"])
    nb = session_notebook(recording, source_nb=cells.nb, options=form)
    left_out = f"Left out: {count(commands, 'command')}." if commands else ""
    said = [*filter(None, (left_out, about_stops(nb, read_saved(nb).held)))]
    merged = replace(merged, head=Book.collect(nb).head())
    return MergedNotebook(with_marks(nb, marks_of_both(a, b)), merged, cells.notes, said)


def _read(name: str, nb: Any) -> Recording:
    """What `nb` records, with what only its outputs carry."""
    try:
        read_saved(nb)
        return Book.collect(nb).recording
    except RecordingError as error:
        raise type(error)(f"{name}: {error}") from error
