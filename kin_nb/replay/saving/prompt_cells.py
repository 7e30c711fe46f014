"""Cells that ask: one for each turn, with the text that it was asked."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from kin_nb.core.commands import escaped
from kin_nb.core.session.records import TurnRecord
from kin_nb.replay.cells.matching import cell_key
from kin_nb.replay.cells.placing import asked_key, place_turns
from kin_nb.replay.cells.undo_placing import free_id
from kin_nb.replay.format.validity import is_id
from kin_nb.replay.recording import Recording

_SURROGATE = re.compile("[\ud800-\udfff]")


def with_every_turn_asked(nb: Any, recording: Recording) -> Recording:
    """Give each turn a cell with its text: append the missing, put back the text of cells edited since they ran."""
    placed = place_turns(nb, recording.turns)
    asked = {turn.turn: turn for turn in recording.turns}
    held: dict[int, list[int]] = {}
    for number, index in placed.items():
        held.setdefault(index, []).append(number)
    for index, numbers in held.items():
        cell = nb["cells"][index]
        if asked_key(nb, cell) not in {asked[number].key for number in numbers}:
            cell["source"], asked[max(numbers)] = as_cell(nb, asked[max(numbers)])
    cells = Counter(turn.cell_id for turn in recording.turns)
    for number, turn in asked.items():
        if number not in placed:
            source, asked[number] = as_cell(nb, turn)
            # where other turns have that id too, a cell of its own
            named = turn.cell_id if cells[turn.cell_id] == 1 else None
            cell = code_cell(source, free_id(nb, named or f"turn-{number}"))
            if turn.cell_id and not named:
                asked[number] = asked[number].model_copy(update={"cell_id": cell["id"]})
            nb["cells"].append(cell)
    return replace(recording, turns=tuple(asked.values()))


def as_cell(nb: Any, turn: TurnRecord) -> tuple[str, TurnRecord]:
    """A cell's source that asks `turn`, and the turn with that cell's key."""
    prompt = escaped(turn.prompt)
    key = cell_key(prompt, "")
    # in a notebook of the Kin kernel a prompt is a cell as it is, unless it looks like a magic
    plain = asked_key(nb, {"cell_type": "code", "source": prompt}) == key
    return prompt if plain else f"%%kin\n{prompt}", turn.model_copy(update={"key": key})


def code_cell(source: str, cell_id: str) -> Any:
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    # an id that a record names may be none; whatever is double is mended at the end
    known = cell_id if is_id(cell_id) else "cell"
    return new_code_cell(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", source), id=known)
