"""What was paid at the end of a log and no turn holds: compactions after the last reply, also those that were undone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kin_nb.core.accounting import drop
from kin_nb.core.session.records import RecordedCompaction


def paid_since(lines: Iterable[dict[str, Any]]) -> list[RecordedCompaction]:
    """Each with what it took. Raises LookupError, TypeError, ValueError for lines that are none of ours."""
    dropped: list[RecordedCompaction] = []
    pending: RecordedCompaction | None = None
    undone: list[RecordedCompaction | None] = []
    for line in lines:
        match line.get("type"):
            case "continued" | "turn" | "reply":
                dropped, pending, undone = [], None, []
            case "renamed" if isinstance(line.get("compaction"), dict):  # with what the one before it took
                pending = RecordedCompaction.model_validate(line["compaction"])
            case "renamed":
                drop(dropped, pending)
                pending = None
            case "undo":
                drop(dropped, pending)
                if line["record"].get("type") == "redo":
                    pending = undone.pop() if undone else None
                    dropped = [each for each in dropped if each is not pending]
                else:
                    undone.append(pending)
                    pending = None
    return [*dropped, *([pending] if pending is not None else [])]
