"""Cells in the order in which things were undone: run from the top, each undo finds the turns before it and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kin_nb.core.session.records import TurnRecord
from kin_nb.replay.cells.placing import place_turns
from kin_nb.replay.cells.undos import undo_source, undoes
from kin_nb.replay.recording import Recording


def drop_undo_cells(nb: Any) -> None:
    nb["cells"] = [cell for cell in nb["cells"] if undoes(nb, cell) is None]


def with_own_cells(nb: Any, recording: Recording) -> Recording:
    """Two cells, in `nb`, for a cell that was run again after an undo: the first is what was undone."""
    turns = {turn.turn: turn for turn in recording.turns}
    eras = {
        turn.turn: len({undo.at for undo in recording.undos if undo.at < position})
        for position, turn in enumerate(recording.turns, 1)
    }
    held: dict[int, dict[int, list[int]]] = {}
    for number, index in sorted(place_turns(nb, recording.turns).items()):
        held.setdefault(index, {}).setdefault(eras[number], []).append(number)
    for index in sorted(held, reverse=True):
        _, *later = held[index].values()
        for numbers in reversed(later):
            cell = _cell(nb["cells"][index]["source"], free_id(nb, f"turn-{numbers[0]}"))
            nb["cells"].insert(index + 1, cell)
            turns |= {number: turns[number].model_copy(update={"cell_id": cell["id"]}) for number in numbers}
    return replace(recording, turns=tuple(turns.values()))


def put_undo_cells(nb: Any, recording: Recording) -> None:
    """A cell for each undo in place of those that were typed: they may have undone less, or nothing.

    It stands where one was typed that asked for the same, after the cell of the turn before it and above those of later
    turns; else directly after that turn's. Cells of later turns that stand above it move below it.
    """
    typed = {id(cell): cell for cell in nb["cells"] if undoes(nb, cell) is not None}
    nb["cells"], before = [cell for cell in nb["cells"] if id(cell) not in typed], nb["cells"]
    new = [_cell(undo_source(undo), free_id(nb, f"undo-{n}")) for n, undo in enumerate(recording.undos, 1)]
    nb["cells"] = before
    for at in sorted({undo.at for undo in recording.undos}):
        cells, placed = nb["cells"], place_turns(nb, recording.turns)
        last = placed[recording.turns[at - 1].turn]
        late = _late(recording.turns[at:], placed, last)
        later = (placed[turn.turn] for turn in recording.turns[at:])
        end = min((index for index in later if index > last), default=len(cells))
        between = cells[last + 1 : end]
        group = [cell for cell, undo in zip(new, recording.undos, strict=True) if undo.at == at]
        places = _places(nb, group, between, typed)
        for place, cell in zip(reversed(places), reversed(group), strict=True):
            between.insert(place, cell)
        done = places[-1] + len(group)
        above = [cell for index, cell in enumerate(cells[: last + 1]) if index not in late]
        moved = [cells[index] for index in late]
        nb["cells"] = [*above, *between[:done], *moved, *between[done:], *cells[end:]]
    nb["cells"] = [cell for cell in nb["cells"] if id(cell) not in typed]


def _places(nb: Any, new: Sequence[Any], between: Sequence[Any], typed: Mapping[int, Any]) -> list[int]:
    """For each of the `new` cells how many of `between` stand above it: up to the one that was typed for it, rising."""
    places, place = [], 0
    for cell in new:
        wanted = undoes(nb, cell)
        same = (n + 1 for n, each in enumerate(between) if id(each) in typed and undoes(nb, each) == wanted)
        place = next((n for n in same if n > place), place)
        places.append(place)
    return places


def _late(turns: Sequence[TurnRecord], placed: dict[int, int], last: int) -> list[int]:
    """The cells of `turns` that do not stand below cell `last`, in the order of the turns."""
    return list(dict.fromkeys(placed[turn.turn] for turn in turns if placed[turn.turn] <= last))


def _cell(source: str, cell_id: str) -> Any:
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    return new_code_cell(source, id=cell_id)


def free_id(nb: Any, wanted: str) -> str:
    """`wanted`, or one like it that no cell of `nb` has."""
    used = {cell["id"] for cell in nb["cells"] if isinstance(cell.get("id"), str)}
    return (
        wanted
        if wanted not in used
        else next(name for n in range(len(used) + 1) if (name := f"{wanted}-{n}") not in used)
    )
