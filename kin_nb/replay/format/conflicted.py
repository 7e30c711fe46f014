"""What nbmerge, and front ends that merge with nbdime, leave in a notebook for a person to choose from."""

from __future__ import annotations

import re
from typing import Any

from kin_nb.replay.format.later import short

_KEYS = ("local_metadata", "remote_metadata", "nbdime-conflicts")
_FIRST = re.compile(r"^<<<<<<< local$", re.MULTILINE)
_LAST = re.compile(r"^>>>>>>> remote$", re.MULTILINE)


def merge_conflict(nb: Any) -> str:
    """Where the first conflict is that a merge left, and what to do; "" when there is none."""
    for number, cell in enumerate(nb["cells"], 1):
        left = _left(cell)
        if left:
            return _said(f"in cell {number} (`{left}`)")
    left = next((key for key in _KEYS if key in nb["metadata"]), "")
    return _said(f"in the notebook's metadata (`{left}`)") if left else ""


def _left(cell: Any) -> str:
    if isinstance(cell.get("id"), dict):
        return short(next(iter(cell["id"]), "id"))
    found = next((key for key in _KEYS if key in cell["metadata"]), "")
    in_code = cell.get("cell_type") == "code" and _is_marked(cell["source"])
    return found or ("<<<<<<< local" if in_code else "")


def _is_marked(source: str) -> bool:
    first = _FIRST.search(source)
    return first is not None and _LAST.search(source, first.end()) is not None


def _said(where: str) -> str:
    return f"nbmerge left a conflict {where}: merge the notebooks again with kin-nb merge BASE A B"
