"""What outputs carry, kept in the output of the notebook's first cell too.

Run All that stops clears the outputs below, and a front end saves that. The first cell has run by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kin_nb.replay.cells.placing import is_kin_kernel, named_session
from kin_nb.replay.format.carrying import KEY, carried_in

KEPT = "kin_kept"
MAX_CHARACTERS = 8_000_000
"""Of all that is kept: a front end keeps all outputs in memory."""


def keeping(nb: Any) -> dict[str, Any]:
    """Metadata for the output of the first cell of `nb`, which is `restored`: empty where there is nothing to keep."""
    kept = [
        {"cell": cell["id"], "carried": carried}
        for cell in nb["cells"]
        if isinstance(cell.get("id"), str)
        for carried in carried_in(cell)
    ]
    return {KEPT: kept} if 0 < sum(len(str(each)) for each in kept) <= MAX_CHARACTERS else {}


def restored(nb: Any, before: Any = None) -> Any:
    """`nb`, where cells that lost what their outputs carried carry that again, unless they speak to no session any more.

    Their text may be another one, or be so in the file alone: what is played is told by that later. `before`: the notebook as
    it was; what it carried counts where `nb` keeps nothing.
    """
    kept: dict[str, list[Any]] = {}
    for each in [*_kept_in(nb)] or (keeping(before).get(KEPT, []) if before is not None else []):
        kept.setdefault(each["cell"], []).append(each["carried"])
    return {**nb, "cells": [_with(nb, cell, kept) for cell in nb["cells"]]} if kept else nb


def _with(nb: Any, cell: Any, kept: Mapping[str, list[Any]]) -> Any:
    own = kept.get(cell["id"], []) if isinstance(cell.get("id"), str) else []
    speaks = cell["cell_type"] == "code" and (named_session(cell) is not None or is_kin_kernel(nb))
    if not own or not speaks or any(carried_in(cell)):
        return cell
    outputs = [{"output_type": "display_data", "data": {}, "metadata": {KEY: each}} for each in own]
    return {**cell, "outputs": [*cell.get("outputs", []), *outputs]}


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
                    yield each
