"""What an output carries in its metadata, unchecked (in_outputs.py reads it)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KEY = "kin_recording"
AFTER = "after"
"""Within it, and in a session's header: the sessions that this one went on from, the nearest first."""

STANDS = "stands"
"""Within it: what the conversation is after the record (stood.py)."""

UNDONE = "undone"
"""In the header of a session that went on from outputs: how many undos they have that it does not."""


def sessions_before(value: Any) -> tuple[str, ...]:
    """What stands at AFTER, unchecked; old notebooks and logs have the nearest alone."""
    return tuple(each for each in (value if isinstance(value, list) else [value]) if each and isinstance(each, str))


def carried_in(cell: Any) -> Iterator[dict[str, Any]]:
    for output in cell.get("outputs", []):
        metadata = output.get("metadata")
        kept = metadata.get(KEY) if isinstance(metadata, dict) else None
        if isinstance(kept, dict):
            yield kept
