"""How a re-executing kernel hands over what its calls came to: a file of JSON lines, one for each turn that ran.

`KIN_REPLAY_CALLS` names it. Only calibrating asks for it: cards show less than what was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kin_nb.core.session.records import RecordedCall, canonical_json
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.drift import Drift

VARIABLE = "KIN_REPLAY_CALLS"


@dataclass(frozen=True)
class CameOut:
    """What a recorded call came to when it ran again, and how that compares."""

    call: RecordedCall
    drift: Drift


_CALLS: TypeAdapter[tuple[CameOut | None, ...]] = TypeAdapter(tuple[CameOut | None, ...])


def write_calls(file: Path, turn: int, calls: Iterable[CameOut | None]) -> None:
    """`calls`: one for each recorded call of the turn, in order; None for one that did not run. Raises ReplayError."""
    values = [
        came and {"call": came.call.model_dump(exclude_defaults=True), "drift": asdict(came.drift)} for came in calls
    ]
    try:
        with file.open("a", encoding="ascii") as lines:
            lines.write(canonical_json({"turn": turn, "calls": values}) + "\n")
    except OSError as error:
        raise ReplayError(f"What the calls came to cannot be written to {file}: {error.strerror}.") from error


def read_calls(file: Path) -> Mapping[int, tuple[CameOut | None, ...]]:
    """By turn; nothing when no turn has run. Raises ReplayError: what ran there can write to the file too."""
    try:
        lines = file.read_bytes().splitlines() if file.exists() else []
        values = [json.loads(line) for line in lines]
        return {int(value["turn"]): _CALLS.validate_python(value["calls"]) for value in values}
    except (OSError, ValueError, LookupError, TypeError, RecursionError, ValidationError) as error:
        raise ReplayError(
            f"{file} is not as the run wrote it ({type(error).__name__}). Calibrate once more."
        ) from error
