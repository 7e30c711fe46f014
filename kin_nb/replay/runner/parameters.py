"""Parameters of a run (`-p NAME VALUE`): a cell that sets them, where papermill puts it."""

from __future__ import annotations

import keyword
import math
from collections.abc import Sequence
from typing import Any

from kin_nb.replay.cells.placing import is_kin_kernel
from kin_nb.replay.format.embedded import is_embedding

INJECTED, PARAMETERS = "injected-parameters", "parameters"
NAMING = "%kin replay "
_MINOR_WITH_IDS = 5
_WORDS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def value_of(text: str) -> bool | int | float | str | None:
    """As papermill's command line reads it: True, False, None, a whole number, a number, else the text as it is."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def is_name(name: str) -> bool:
    """Whether a cell can set it."""
    return name.isidentifier() and not keyword.iskeyword(name)


def inject(nb: Any, parameters: Sequence[tuple[str, str]]) -> None:
    """Put a cell with `parameters` into `nb`, in place of what was injected before; nothing when there are none.

    After the cell tagged `parameters`, else after the cells that name the recording. Of a name given twice the last
    value counts.
    """
    if not parameters:
        return
    cells = nb["cells"]
    made = _cell(nb, dict(parameters))
    before = _tagged(cells, INJECTED)
    if before is not None:
        cells[before] = made
        return
    after = _tagged(cells, PARAMETERS)
    cells.insert((_head(cells) if after is None else after) + 1, made)


def _cell(nb: Any, parameters: dict[str, str]) -> Any:
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    lines = ["%%python"] if is_kin_kernel(nb) else []
    lines += ["# Parameters", *(f"{name} = {_literal(value_of(text))}" for name, text in parameters.items())]
    used = {cell.get("id") for cell in nb["cells"]}
    cell_id = next(name for name in (INJECTED, *(f"{INJECTED}-{n}" for n in range(len(used)))) if name not in used)
    cell = new_code_cell("\n".join(lines), id=cell_id, metadata={"tags": [INJECTED]})
    if nb.get("nbformat_minor", 0) < _MINOR_WITH_IDS:
        del cell["id"]
    return cell


def _literal(value: bool | float | str | None) -> str:
    unspelled = isinstance(value, float) and not math.isfinite(value)
    return f"float({str(value)!r})" if unspelled else repr(value)


def _tagged(cells: Sequence[Any], tag: str) -> int | None:
    for index, cell in enumerate(cells):
        tags = cell["metadata"].get("tags")
        if cell["cell_type"] == "code" and isinstance(tags, list) and tag in tags:
            return index
    return None


def _head(cells: Sequence[Any]) -> int:
    """The last of the cells that name or hold the recording; -1 when there is none."""
    return next((n for n, cell in enumerate(cells) if is_embedding(cell) or names_recording(cell)), -1)


def names_recording(cell: Any) -> bool:
    """Whether a cell says which recording to play."""
    return cell["cell_type"] == "code" and any(line.lstrip().startswith(NAMING) for line in cell["source"].splitlines())
