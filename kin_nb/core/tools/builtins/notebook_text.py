"""A Jupyter notebook as text for the model: its cells with numbers, outputs cut short, no pictures' data."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST_OUTPUT = 1_000
"""Characters shown of one output."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def notebook_text(content: bytes) -> str | None:
    """The cells, or None for what is no notebook with cells: then the file is read as it is."""
    try:
        notebook = json.loads(content)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return None
    return "\n".join(cell_text(number, _mapping(cell)) for number, cell in enumerate(cells, 1))


def cell_text(number: int, cell: dict[str, Any], longest: int = LONGEST_OUTPUT) -> str:
    """One cell and its outputs; ends with a newline."""
    source = _text(cell.get("source"))
    outputs = cell.get("outputs")
    shown = [_output(_mapping(output), longest) for output in outputs] if isinstance(outputs, list) else []
    parts = [f"[cell {number}: {_text(cell.get('cell_type'))}]", source, *shown]
    return "\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _output(output: dict[str, Any], longest: int) -> str:
    if output.get("output_type") == "error":
        text = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    else:
        data = _mapping(output.get("data"))
        text = _text(output.get("text")) or _text(data.get("text/plain"))
        others = [kind for kind in data if kind.startswith("image/")]
        text = "\n".join(filter(None, (text.rstrip("\n"), *(f"({kind})" for kind in others))))
    text = _COLOUR.sub("", text)
    left_out = len(text) - longest
    cut = f"{text[:longest]}\n[… {left_out:,} characters left out …]" if left_out > 0 else text
    return f"[output]\n{cut}" if cut else ""


def _text(value: Any) -> str:
    """Notebooks keep text as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
