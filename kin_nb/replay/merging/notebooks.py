"""Two session notebooks that went on from one, joined: their recordings by recordings.py, their cells by cells.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kin_nb.render.text import count
from kin_nb.replay.cells.placing import place_turns
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.embedded import is_embedding
from kin_nb.replay.format.gone_on import whole
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.sidecar import KEY as SIDECAR
from kin_nb.replay.merging.cells import MergedCells, comparable, merge_cells
from kin_nb.replay.merging.recordings import Merged, merge_recordings
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.live_cells import drop_commands
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.named_recording import in_folder
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.own_cells import marks_of_both, with_marks
from kin_nb.replay.saving.turn_order import about_stops


@dataclass(frozen=True)
class MergedNotebook:
    """`notes`: how many cells say that a person has to choose. `merged.recording` is what `nb` plays, but for cell ids.

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
    recordings = {name: _read(name, nb) for name, nb in (("BASE", base), ("A", a), ("B", b))}
    merged = merge_recordings(recordings["BASE"], recordings["A"], recordings["B"])
    names = ("A", "B") if merged.first == "a" else ("B", "A")
    sides = {"A": comparable(a, "A"), "B": comparable(b, "B")}
    cells = merge_cells(comparable(base, "BASE"), sides[names[0]], sides[names[1]])
    commands = drop_commands(cells.nb)
    homes = _homes(cells, merged, [(sides[name], recordings[name]) for name in names])
    recording = in_folder(merged.recording, *folders)
    turns = tuple(t.model_copy(update={"cell_id": homes.get(t.turn, t.cell_id)}) for t in recording.turns)
    form = SaveOptions(portable=any(map(is_embedding, a["cells"])), sidecar=SIDECAR in a["metadata"]["kin"])
    nb = session_notebook(replace(recording, turns=turns), source_nb=cells.nb, options=form)
    left_out = f"Left out: {count(commands, 'command')}." if commands else ""
    said = [*filter(None, (left_out, about_stops(nb, read_recording(nb))))]
    return MergedNotebook(with_marks(nb, marks_of_both(a, b)), merged, cells.notes, said)


def _read(name: str, nb: Any) -> Recording:
    try:
        return whole(nb, read_recording(nb))
    except RecordingError as error:
        raise RecordingError(f"{name}: {error}") from error


def _homes(cells: MergedCells, merged: Merged, sides: list[tuple[Any, Recording]]) -> dict[int, str]:
    """The ids of the cells that asked the turns, by their numbers in the merged recording."""
    (one, ours), (other, theirs) = sides
    homes = {merged.numbers[n]: cells.other[at] for n, at in place_turns(other, theirs.turns).items()}
    return homes | {n: cells.one[at] for n, at in place_turns(one, ours.turns).items()}
