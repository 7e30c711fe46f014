"""What an output carries in its metadata, unchecked (in_outputs.py reads it)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KEY = "kin_recording"
AFTER = "after"
"""Within it: the session that its session went on from, "" for none."""

STANDS = "stands"
"""Within it: what the conversation is after the record (stood.py)."""

UNDONE = "undone"
"""In the header of a session that went on from outputs: how many undos they have that it does not."""


def carried_in(cell: Any) -> Iterator[dict[str, Any]]:
    for output in cell.get("outputs", []):
        metadata = output.get("metadata")
        kept = metadata.get(KEY) if isinstance(metadata, dict) else None
        if isinstance(kept, dict):
            yield kept
