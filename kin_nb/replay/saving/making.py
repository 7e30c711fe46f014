"""Making a session notebook: the records in the cells that asked, the outputs that playback will show, nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kin_nb.core.session.records import TurnRecord
from kin_nb.render import Output, render_turn
from kin_nb.replay.cells.bound import BOUND, HEAD, IGNORED, RAISES, drop_bound_cells, put_bound_cells
from kin_nb.replay.cells.placing import asked_key, named_session
from kin_nb.replay.cells.undo_placing import put_undo_cells, with_own_cells
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.embedded import is_embedding
from kin_nb.replay.format.in_notebook import write_recording
from kin_nb.replay.format.jupytext import keep_out_of_text
from kin_nb.replay.format.kept import KEPT, restored
from kin_nb.replay.format.loading import as_node, import_nbformat
from kin_nb.replay.format.sidecar import KEY as SIDECAR
from kin_nb.replay.format.validity import is_id
from kin_nb.replay.playback.player import Player, playback_notice, undo_card
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.head import is_head, put_head
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.prompt_cells import code_cell, with_every_turn_asked
from kin_nb.replay.saving.turn_order import in_turn_order, stops_at_its_own
from kin_nb.replay.saving.widgets import keep_shown_widgets

FAILED = "kin-failed"
"""The tag of an ordinary cell that saving tagged `raises-exception`: it goes with that tag once the cell does not fail."""
_GROUP = "Exception Group Traceback (most recent call last):"
_SAVE = re.compile(r"\s*%kin[ \t]+save\b[^\n]*(?:\n\s*)?")


@dataclass(frozen=True)
class Cell:
    """A code cell that was run, for a notebook whose file is not known. Of its outputs only whether it `failed` is known."""

    source: str
    id: str | None = None
    failed: bool = False


def session_notebook(
    recording: Recording,
    *,
    source_nb: Any = None,
    cells: Sequence[Cell] | None = None,
    options: SaveOptions | None = None,
) -> Any:
    """The session as a notebook (NotebookNode, nbformat 4.5) that plays `recording`.

    From a copy of `source_nb`, the live notebook's file, when given; else from the `cells` that were run; else one
    `%%kin` cell per turn. Turns that no cell asked are appended; each undo has a cell of its own, and so has the agent's
    code that bound variables. `source_nb` itself is not changed. Of `options` only the form counts here.
    """
    options = options or SaveOptions()
    nb = as_node(restored(source_nb)) if source_nb is not None else _from_cells(cells or ())
    nb["cells"] = [
        cell for cell in nb["cells"] if not (cell["cell_type"] == "code" and _SAVE.fullmatch(cell["source"]))
    ]
    drop_bound_cells(nb)
    _drop_carried(nb)
    recording = with_every_turn_asked(nb, with_own_cells(nb, recording))
    put_undo_cells(nb, recording)
    if stops_at_its_own(nb, recording):
        _complete_ids(nb)
        recording = in_turn_order(nb, recording)
        put_undo_cells(nb, recording)
    _tag_failed(nb)
    put_bound_cells(nb, recording)
    head = put_head(nb, recording, portable=options.portable)
    _complete_ids(nb)
    write_recording(nb, recording)
    _put_outputs(nb, recording, head)
    keep_shown_widgets(nb)
    if options.sidecar:
        nb["metadata"]["kin"][SIDECAR] = ""  # named when it is written
    keep_out_of_text(nb)
    nb["nbformat"], nb["nbformat_minor"] = 4, max(5, nb["nbformat_minor"])
    return nb


def is_made_anew(nb: Any, cell: Any) -> bool:
    """Whether another cell, or none, will stand in its place: it loads, names or holds the recording, undoes or saves."""
    if cell["cell_type"] != "code":
        return False
    ours = is_head(cell["source"]) or _SAVE.fullmatch(cell["source"]) is not None
    return ours or is_embedding(cell) or undoes(nb, cell) is not None


def empty_notebook() -> Any:
    import_nbformat()
    from nbformat.v4 import new_notebook  # noqa: PLC0415  (first use)

    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return new_notebook(metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _from_cells(cells: Sequence[Cell]) -> Any:
    nb = empty_notebook()
    for n, cell in enumerate(cells, 1):
        made = code_cell(cell.source, cell.id or f"cell-{n}")
        made["execution_count"] = n
        if asked_key(nb, made) is None:
            # what it showed is not known
            made["metadata"]["tags"] = [BOUND] if cell.source.startswith(HEAD) else [IGNORED]
            made["metadata"]["tags"] += [FAILED, RAISES] if cell.failed else []
        nb["cells"].append(made)
    return nb


def _drop_carried(nb: Any) -> None:
    """What outputs carry is in the cells that asked, and nowhere else: not where somebody edited one into another cell."""
    for cell in nb["cells"]:
        asks = named_session(cell) is not None or asked_key(nb, cell) is not None or undoes(nb, cell) is not None
        for output in cell.get("outputs", []):
            for key in (KEPT,) if asks else (KEPT, KEY):
                output.get("metadata", {}).pop(key, None)


def _tag_failed(nb: Any) -> None:
    """Let each runner go past an ordinary cell that ended in an error; without outputs it stays as it was tagged."""
    for cell in nb["cells"]:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] != "code" or not cell["outputs"] or not isinstance(tags, list) or is_made_anew(nb, cell):
            continue
        new = [tag for tag in tags if tag not in (FAILED, RAISES)] if FAILED in tags else tags
        if ends_in_error(cell) and asked_key(nb, cell) is None and RAISES not in new:
            new = [*new, FAILED, RAISES]
        if new != tags:
            cell["metadata"]["tags"] = new


def ends_in_error(cell: Any) -> bool:
    """Whether the saved outputs of `cell` have an error, or end on stderr with one that IPython prints there alone.

    Those are the UsageError of a magic, and an exception group.
    """
    outputs = cell["outputs"]
    printed = "".join("".join(output["text"]) for output in outputs if output.get("name") == "stderr")
    last = printed.rstrip().rpartition("\n")[2]
    is_group = last.endswith("---") and last.strip(" -") == "+" and _GROUP in printed
    return any(output["output_type"] == "error" for output in outputs) or is_group or last.startswith("UsageError: ")


def _put_outputs(nb: Any, recording: Recording, head: Any) -> None:
    """Exactly what running the cells in order shows in playback, since nbval compares that; counts from 1."""
    player = Player(recording)
    by_turn = {turn.turn: turn for turn in recording.turns}
    count = 0
    for cell in nb["cells"]:
        if cell["cell_type"] != "code":
            continue
        turns = [by_turn[raw["turn"]] for raw in cell["metadata"].get("kin", []) if raw["type"] == "turn"]
        shown = _shown(nb, cell, player, turns)
        if cell is head:
            shown = [playback_notice(recording)]
        elif not turns and undoes(nb, cell) is None and cell["execution_count"] is None and not cell["outputs"]:
            continue
        if shown is not None:
            cell["outputs"] = [_display_data(output) for output in shown]
        count += 1
        cell["execution_count"] = count
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count


def _shown(nb: Any, cell: Any, player: Player, turns: list[TurnRecord]) -> list[Output] | None:
    """What playback shows for `cell`; None for ordinary cells, and for prompts that were never recorded."""
    undoing = undoes(nb, cell)
    if undoing is not None:
        with suppress(NotRecorded):
            return [undo_card(player.undo(undoing, None)[1])]
    key = asked_key(nb, cell)
    if key is None:
        return None
    with suppress(NotRecorded, AmbiguousTurn):
        return player.play(key, None)
    return render_turn(turns[-1]) if turns else None


def _display_data(output: Output) -> Any:
    from nbformat import from_dict  # noqa: PLC0415  (first use)

    # validated when it is written, with all the others: one by one takes as long as all the rest of saving
    return from_dict({"output_type": "display_data", "data": output.data, "metadata": output.metadata})


def _complete_ids(nb: Any) -> None:
    """Every cell has an id of its own (nbformat 4.5); those that had one keep it."""
    used: set[str] = set()
    for n, cell in enumerate(nb["cells"], 1):
        wanted = cell.get("id")
        if not is_id(wanted):
            wanted = f"cell-{n}"
        cell["id"] = (
            wanted if wanted not in used else next(i for k in range(n + 1) if (i := f"cell-{n}-{k}") not in used)
        )
        used.add(cell["id"])
