"""Cells in the order of their turns, where a replay would stop otherwise: at one of several with the same text, or an undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kin_nb.core.session.records import TurnRecord
from kin_nb.replay.cells.matching import State, match_turn, match_undo, turns_of_cell
from kin_nb.replay.cells.placing import asked_key, place_turns
from kin_nb.replay.cells.undo_placing import free_id
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.prompt_cells import as_cell, code_cell


def cells_that_stop(nb: Any, recording: Recording) -> list[int]:
    """Those (from 1) that play nothing when all are run from the top: several turns have their text, or none; no undo is due."""
    return _run(nb, recording)[0]


def _run(nb: Any, recording: Recording) -> tuple[list[int], State]:
    """`cells_that_stop`, and what was played."""
    found: list[int] = []
    state = State()
    for number, cell in enumerate(nb["cells"], 1):
        undoing, key = undoes(nb, cell), asked_key(nb, cell)
        try:
            if undoing is not None:
                _, state = match_undo(recording, undoing, None, state)
            elif key is not None:
                state = match_turn(recording, key, None, state).state
        except (AmbiguousTurn, NotRecorded):
            found.append(number)
    return found, state


def about_stops(nb: Any, recording: Recording) -> str:
    """What to say of a saved notebook that has `cells_that_stop`; "" of any other."""
    found = cells_that_stop(nb, recording)
    which = f"Cell {found[0]} has" if len(found) == 1 else f"Cells {', '.join(map(str, found))} have"
    return (
        f"{which} no answer in this recording, and a replay stops there. Run or remove it, and save again."
        if found
        else ""
    )


def stops_at_its_own(nb: Any, recording: Recording) -> bool:
    """Whether an undo, or a cell that asked a turn, is among `cells_that_stop`; cells that asked nothing cannot be helped.

    Or whether a cell plays what it was answered first, and was run again with that same text.
    """
    placed = place_turns(nb, recording.turns)
    asking = set(placed.values())
    cells = nb["cells"]
    stops, state = _run(nb, recording)
    if any(n - 1 in asking or undoes(nb, cells[n - 1]) is not None for n in stops):
        return True
    hidden = {(placed[turn.turn], turn.key) for n, turn in enumerate(recording.turns) if n not in state.played}
    return any((placed[turn.turn], turn.key) in hidden for n, turn in enumerate(recording.turns) if n in state.played)


def in_turn_order(nb: Any, recording: Recording) -> Recording:
    """Give each turn in `nb` a cell of its own, below that of the turn before it; other cells stay where they are.

    A flow's turns stay together. Every turn must have a cell, and every cell an id.
    """
    placed = place_turns(nb, recording.turns)
    runs = list(_runs(recording.turns))
    keeps = {placed[run[0].turn]: run for run in runs}  # what was asked last is what its text says
    keeps |= {at: run for run in runs if run[0].key == asked_key(nb, nb["cells"][at := placed[run[0].turn]])}
    made: dict[int, list[Any]] = {}
    turns: list[TurnRecord] = []
    order: dict[str, int] = {}
    for run in runs:
        index = placed[run[0].turn]
        kept = keeps[index] is run
        for cell, asked in [(nb["cells"][index], run)] if kept else _cells(nb, nb["cells"][index], run):
            order[cell["id"]] = len(order)
            turns += [turn.model_copy(update={"cell_id": cell["id"]}) for turn in asked]
            made.setdefault(index, []).extend([] if kept else [cell])
    cells = [each for index, cell in enumerate(nb["cells"]) for each in (*made.get(index, ()), cell)]
    nb["cells"] = list(_ordered(cells, order))
    return replace(recording, turns=tuple(turns))


def _runs(turns: Sequence[TurnRecord]) -> Iterator[Sequence[TurnRecord]]:
    position = 0
    while position < len(turns):
        run = turns_of_cell(turns, position)
        yield run
        position += len(run)


def _cells(nb: Any, cell: Any, run: Sequence[TurnRecord]) -> Iterator[tuple[Any, Sequence[TurnRecord]]]:
    """New cells for a run that `cell` was another time: with its text, or, of another text, one for each turn."""
    if run[0].key == asked_key(nb, cell):
        yield code_cell(cell["source"], free_id(nb, f"turn-{run[0].turn}")), run
        return
    for turn in run:
        source, asked = as_cell(nb, turn)
        yield code_cell(source, free_id(nb, f"turn-{turn.turn}")), [asked]


def _ordered(cells: Sequence[Any], order: Mapping[str, int]) -> Iterator[Any]:
    """Those with a place in `order`, each as soon as all before it came."""
    early: dict[int, Any] = {}
    due = 0
    for cell in cells:
        if cell["id"] not in order:
            yield cell
            continue
        early[order[cell["id"]]] = cell
        while due in early:
            yield early.pop(due)
            due += 1
