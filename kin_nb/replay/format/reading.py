"""Checking records one by one, so that an edit by hand is named by cell, turn, step and field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from kin_nb.core.session.records import Record, RecordedStep, TurnRecord, UndoRecord, canonical_json, sha256
from kin_nb.render import one_line
from kin_nb.replay.errors import DoesNotFollowError, MissingTextError, RecordingError
from kin_nb.replay.format.later import later_field, refuse_later, short
from kin_nb.replay.format.relinking import numbered
from kin_nb.replay.recording import (
    SHORT,
    Recording,
    SessionMeta,
    other_sha,
    step_sha,
    turn_sha,
    undo_sha,
    whole_numbers,
)

R = TypeVar("R", bound=Record)
_MOST_NAMED = 5


@dataclass(frozen=True)
class Read:
    """A verified turn and the cell (from 1) that holds it; 0: not in a cell, but in the recording that is gone on with."""

    cell: int
    record: TurnRecord

    @property
    def where(self) -> str:
        return f"cell {self.cell}" if self.cell else "the recording"


class Reading:
    """One notebook being read: `add` each record, then take `turns` and `undos` (by number) and `others` (by hash)."""

    def __init__(self, meta: SessionMeta, blobs: dict[str, Any], sidecar: str = "") -> None:
        self.turns: dict[int, Read] = {}
        self.undos: dict[int, UndoRecord] = {}
        self.others: dict[str, str] = {}
        self._undo_cells: dict[int, int] = {}
        self._meta = meta
        self._blobs = blobs
        self._where_blobs_are = sidecar or "the notebook's blobs"
        self._restore = (
            f"Put {one_line(sidecar)}, as it was saved, beside the notebook" if sidecar else "Restore the notebook"
        )

    def hold(self, recording: Recording) -> None:
        """What is verified already, and gone on with by what outputs carry."""
        self.turns.update((turn.turn, Read(0, turn)) for turn in recording.turns)
        for number, undo in enumerate(recording.undos, 1):
            self.undos[number] = numbered(undo, recording.turns)

    def add(self, cell: int, raw: Any) -> None:
        """Verify one record. A cell that was copied brings its record twice: the second, if equal, adds nothing."""
        if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
            raise self.error(f"cell {cell}", "a record has no type")
        if raw["type"] in ("undo", "redo"):
            self._add_undo(cell, raw)
            return
        if raw["type"] != "turn":
            self._add_other(cell, raw)
            return
        turn = self._turn(cell, raw)
        before = self.turns.setdefault(turn.turn, Read(cell, turn))
        if before.record != turn:
            raise self.conflict(f"cell {cell}", f"turn {turn.turn} is also in {before.where}, and they differ")

    def error(self, where: str, what: str, restore: str = "Restore the notebook") -> RecordingError:
        repair = f"{restore}, or write it anew from the log: kin-nb save {self._meta.session}"
        # a file says what it likes, at any length, and terminals obey some of it
        return RecordingError(f"{one_line(where)}: {one_line(what, 400)}. {repair}")

    def conflict(self, where: str, what: str) -> DoesNotFollowError:
        """For records that are whole, and do not fit together."""
        return DoesNotFollowError(str(self.error(where, what)))

    def missing_error(self) -> RecordingError | None:
        """That turns or undos are missing, which the numbers of those that are there tell."""
        for kind, cells in (("turn", {n: read.cell for n, read in self.turns.items()}), ("undo", self._undo_cells)):
            gaps = _gaps(cells)
            if gaps:
                return self.error(f"before cell {cells[gaps[0][1] + 1]}", _missing(kind, gaps))
        return None

    def digest_error(self, recording: Recording, claimed: Any, later: str) -> RecordingError:
        """Every record is whole by itself, and still they are not the set that was saved.

        `later`: a key of the session's own metadata that this version does not know, "" when there is none.
        """
        if later:  # which may count in the digest there
            return later_field("notebook metadata", later, self._meta.kin_nb)
        return self.missing_error() or self.error(
            "notebook metadata",
            f"the records add up to {recording.digest[:12]}, not to the digest {short(claimed)[:12]}: the last turns or undos "
            "are missing, a record was exchanged, or model, workspace, kin_nb, system_prompt or tools was changed",
        )

    def _add_undo(self, cell: int, raw: dict[str, Any]) -> None:
        number = whole_numbers(raw.get("n"))
        where = f"cell {cell}, {raw['type']} {short(number)}"
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise self.error(where, "field n: it is no number from 1 on")
        undo, value = self._validated(UndoRecord, {k: v for k, v in raw.items() if k not in ("n", "sha")}, where)
        refuse_later(where, value, undo, self._meta.kin_nb)
        if undo_sha(number, undo) != raw.get("sha"):
            raise self.error(where, "it was changed after it was recorded")
        if self.undos.setdefault(number, undo) != undo:
            raise self.conflict(where, "another cell has it too, and they differ")
        self._undo_cells.setdefault(number, cell)

    def _add_other(self, cell: int, raw: dict[str, Any]) -> None:
        where = f"cell {cell}, record {short(repr(raw['type']))}"
        value = whole_numbers(self._resolved({k: v for k, v in raw.items() if k != "sha"}, where, ""))
        if other_sha(value) != raw.get("sha"):
            raise self.error(where, "it was changed after it was recorded")
        self.others[raw["sha"]] = canonical_json(value)

    def _turn(self, cell: int, raw: dict[str, Any]) -> TurnRecord:
        number = whole_numbers(raw.get("turn"))
        where = f"cell {cell}, turn {short(number)}"
        steps = raw.get("steps")
        if not isinstance(steps, list):
            raise self.error(where, "field `steps` is missing or no list")
        checked = tuple(self._step(f"{where}, step {n}", step) for n, step in enumerate(steps, 1))
        fields = {key: value for key, value in raw.items() if key not in ("steps", "sha")}
        known, value = self._validated(TurnRecord, fields, where)
        refuse_later(where, value, known, self._meta.kin_nb)
        turn = known.model_copy(update={"steps": checked})
        if turn_sha(turn) != raw.get("sha"):
            what = ", ".join(key for key in fields if key != "type")
            raise self.error(where, f"it was changed after it was recorded (one of {what}, or the list of steps)")
        return turn

    def _step(self, where: str, raw: Any) -> RecordedStep:
        if not isinstance(raw, dict):
            raise self.error(where, "it is no record")
        step, value = self._validated(RecordedStep, {k: v for k, v in raw.items() if k != "sha"}, where)
        refuse_later(where, value, step, self._meta.kin_nb)
        sha = step_sha(step)
        if raw.get("sha") not in (sha[:SHORT], sha):  # in old notebooks it stands in full
            raise self.error(where, "its reply or one of its tool calls was changed after it was recorded")
        return step

    def _validated(self, model: type[R], raw: dict[str, Any], where: str) -> tuple[R, Any]:
        value = self._resolved(raw, where, "")
        try:
            return model.model_validate(value), value
        except ValidationError as error:
            first = error.errors()[0]
            raise self.error(where, f"field {_path(first['loc'])}: {first['msg']}") from error

    def _resolved(self, value: Any, where: str, path: str) -> Any:
        if isinstance(value, list):
            return [self._resolved(item, where, f"{path}.{n}") for n, item in enumerate(value, 1)]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"blob"}:
            return self._blob(value["blob"], where, path)
        if value.keys() == {"json"}:
            return self._escaped(value["json"], where, path)
        return {key: self._resolved(item, where, f"{path}.{key}") for key, item in value.items()}

    def _blob(self, sha: Any, where: str, path: str) -> str:
        stored = self._blobs.get(sha) if isinstance(sha, str) else None
        if stored is None:
            what = f"field {short(path[1:])}: its text is missing from {self._where_blobs_are}"
            raise MissingTextError(str(self.error(where, what, self._restore)))
        text: Any = stored
        if isinstance(stored, dict):
            text = self._escaped(stored.get("json"), where, path)
        if not isinstance(text, str) or sha256(text) != sha:
            raise self.error(where, f"field {short(path[1:])}: its text in {self._where_blobs_are} was changed")
        return text

    def _escaped(self, text: Any, where: str, path: str) -> str:
        try:
            value = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            value = None
        if isinstance(value, str):
            return value
        raise self.error(where, f"field {short(path[1:])}: it is no escaped text")


def _path(loc: tuple[int | str, ...]) -> str:
    """Where pydantic found fault, list items counted from 1 as everywhere in messages."""
    return ".".join(str(part + 1 if isinstance(part, int) else part) for part in loc)


def _missing(kind: str, gaps: Sequence[tuple[int, int]]) -> str:
    names = [str(first) if first == last else f"{first}-{last}" for first, last in gaps]
    if names == [str(gaps[0][0])]:
        return f"{kind} {names[0]} is missing: its cell was deleted or lost its metadata"
    more = " and more" if len(names) > _MOST_NAMED else ""
    return (
        f"{kind}s {', '.join(names[:_MOST_NAMED])}{more} are missing: their cells were deleted or lost their metadata"
    )


def _gaps(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """(first, last) of each run of numbers from 1 on that is missing, though a higher one is there."""
    gaps, before = [], 0
    for number in sorted(numbers):
        if number > before + 1:
            gaps.append((before + 1, number - 1))
        before = max(before, number)
    return gaps
