"""What outputs carry, kept in the output of the notebook's first cell too.

Run All that stops clears the outputs below, and a front end saves that. The first cell has run by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kin_nb.core.session.records import sha256
from kin_nb.replay.cells.matching import normal_body
from kin_nb.replay.format.carrying import KEY, carried_in

KEPT = "kin_kept"
MAX_CHARACTERS = 8_000_000
"""Of all that is kept: a front end keeps all outputs in memory."""


def keeping(nb: Any) -> dict[str, Any]:
    """Metadata for the output of the first cell of `nb`, which is `restored`: empty where there is nothing to keep."""
    cells = {cell["id"]: cell for cell in nb["cells"] if isinstance(cell.get("id"), str)}
    now = [
        {"cell": name, "text": _text(cell), "carried": carried}
        for name, cell in cells.items()
        for carried in carried_in(cell)
    ]
    edited = [each for each in _kept_in(nb) if each["cell"] in cells and not any(carried_in(cells[each["cell"]]))]
    size = sum(len(str(each)) for each in [*now, *edited])
    return {KEPT: [*now, *edited]} if 0 < size <= MAX_CHARACTERS else {}


def restored(nb: Any) -> Any:
    """`nb`, where cells that have their text still, and lost what their outputs carried, carry that again."""
    kept: dict[str, list[Any]] = {}
    for each in _kept_in(nb):
        kept.setdefault(each["cell"], []).append(each)
    cells = [cell if any(carried_in(cell)) else _with(cell, kept.get(cell.get("id"), [])) for cell in nb["cells"]]
    return {**nb, "cells": cells} if kept else nb


def _with(cell: Any, kept: list[Any]) -> Any:
    lost = [each["carried"] for each in kept if each["text"] == _text(cell)]
    outputs = [{"output_type": "display_data", "data": {}, "metadata": {KEY: each}} for each in lost]
    return {**cell, "outputs": [*cell.get("outputs", []), *outputs]} if lost else cell


def _kept_in(nb: Any) -> Iterator[Any]:
    """As outputs have it, which anybody may have written: no more than its shape is sure."""
    for cell in nb["cells"]:
        for output in cell.get("outputs", []):
            metadata = output.get("metadata")
            kept = metadata.get(KEPT) if isinstance(metadata, dict) else None
            for each in kept if isinstance(kept, list) else []:
                if (
                    isinstance(each, dict)
                    and isinstance(each.get("cell"), str)
                    and isinstance(each.get("carried"), dict)
                ):
                    yield {"text": "", **each}


def _text(cell: Any) -> str:
    return sha256(normal_body(cell["source"]))[:16]
