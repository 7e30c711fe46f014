"""Checking records one by one, so that an edit by hand is named by cell, turn, step and field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from kin_nb.core.session.records import Record, RecordedStep, TurnRecord, UndoRecord, canonical_json, sha256
from kin_nb.replay.errors import LaterFormatError, MissingTextError, RecordingError
from kin_nb.replay.recording import Recording, SessionMeta, other_sha, step_sha, turn_sha, undo_sha, whole_numbers

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Read:
    """A verified turn and the cell (from 1) that holds it."""

    cell: int
    record: TurnRecord


class Reading:
    """One notebook being read: `add` each record, then take `turns` and `undos` (by number) and `others` (by hash)."""

    def __init__(self, meta: SessionMeta, blobs: dict[str, Any], sidecar: str = "") -> None:
        self.turns: dict[int, Read] = {}
        self.undos: dict[int, UndoRecord] = {}
        self.others: dict[str, str] = {}
        self._meta = meta
        self._blobs = blobs
        self._where_blobs_are = sidecar or "the notebook's blobs"

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
            raise self.error(f"cell {cell}", f"turn {turn.turn} is also in cell {before.cell}, and they differ")

    def error(self, where: str, what: str) -> RecordingError:
        repair = f"Restore the notebook, or write it anew from the log: kin-nb save {self._meta.session}"
        return RecordingError(f"{where}: {what}. {repair}")

    def digest_error(self, recording: Recording, claimed: Any) -> RecordingError:
        """Every record is whole by itself, and still they are not the set that was saved."""
        present = [turn.turn for turn in recording.turns]
        gaps = sorted(set(range(1, max(present, default=0))) - set(present))
        if gaps:
            after = self.turns[next(turn for turn in present if turn > gaps[0])].cell
            names = ", ".join(map(str, gaps))
            return self.error(
                f"before cell {after}", f"turn {names} is missing: its cell was deleted or lost its metadata"
            )
        return self.error(
            "notebook metadata",
            f"the records add up to {recording.digest[:12]}, not to the digest {str(claimed)[:12]}: the last turns are "
            "missing, a record was exchanged, or model, workspace, kin_nb, system_prompt or tools was changed",
        )

    def _add_undo(self, cell: int, raw: dict[str, Any]) -> None:
        number = whole_numbers(raw.get("n"))
        where = f"cell {cell}, {raw['type']} {number}"
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise self.error(where, "field n: it is no number from 1 on")
        undo, value = self._validated(UndoRecord, {k: v for k, v in raw.items() if k not in ("n", "sha")}, where)
        if undo_sha(number, undo) != raw.get("sha"):
            self._refuse_later(undo, value, where)
            raise self.error(where, "it was changed after it was recorded")
        if self.undos.setdefault(number, undo) != undo:
            raise self.error(where, "another cell has it too, and they differ")

    def _add_other(self, cell: int, raw: dict[str, Any]) -> None:
        where = f"cell {cell}, record {raw['type']!r}"
        value = whole_numbers(self._resolved({k: v for k, v in raw.items() if k != "sha"}, where, ""))
        if other_sha(value) != raw.get("sha"):
            raise self.error(where, "it was changed after it was recorded")
        self.others[raw["sha"]] = canonical_json(value)

    def _turn(self, cell: int, raw: dict[str, Any]) -> TurnRecord:
        number = whole_numbers(raw.get("turn"))
        where = f"cell {cell}, turn {number}"
        steps = raw.get("steps")
        if not isinstance(steps, list):
            raise self.error(where, "field `steps` is missing or no list")
        checked = tuple(self._step(f"{where}, step {n}", step) for n, step in enumerate(steps, 1))
        fields = {key: value for key, value in raw.items() if key not in ("steps", "sha")}
        known, value = self._validated(TurnRecord, fields, where)
        turn = known.model_copy(update={"steps": checked})
        if turn_sha(turn) != raw.get("sha"):
            self._refuse_later(turn, value, where)
            what = ", ".join(key for key in fields if key != "type")
            raise self.error(where, f"it was changed after it was recorded (one of {what}, or the list of steps)")
        return turn

    def _step(self, where: str, raw: Any) -> RecordedStep:
        if not isinstance(raw, dict):
            raise self.error(where, "it is no record")
        step, value = self._validated(RecordedStep, {k: v for k, v in raw.items() if k != "sha"}, where)
        if step_sha(step) != raw.get("sha"):
            self._refuse_later(step, value, where)
            raise self.error(where, "its reply or one of its tool calls was changed after it was recorded")
        return step

    def _validated(self, model: type[R], raw: dict[str, Any], where: str) -> tuple[R, Any]:
        value = self._resolved(raw, where, "")
        try:
            return model.model_validate(value), value
        except ValidationError as error:
            first = error.errors()[0]
            raise self.error(where, f"field {_path(first['loc'])}: {first['msg']}") from error

    def _refuse_later(self, known: Record, raw: dict[str, Any], where: str) -> None:
        """A field that this version does not know is no edit by hand: say so before anything else."""
        later = _unknown(raw, known.model_dump())
        if later:
            what = f"field {later} is of a later version (kin_nb {self._meta.kin_nb or '?'} wrote this): update kin_nb"
            raise LaterFormatError(f"{where}: {what}.")

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
            missing = self.error(where, f"field {path[1:]}: its text is missing from {self._where_blobs_are}")
            raise MissingTextError(str(missing))
        text: Any = stored
        if isinstance(stored, dict):
            text = self._escaped(stored.get("json"), where, path)
        if not isinstance(text, str) or sha256(text) != sha:
            raise self.error(where, f"field {path[1:]}: its text in {self._where_blobs_are} was changed")
        return text

    def _escaped(self, text: Any, where: str, path: str) -> str:
        try:
            value = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            value = None
        if isinstance(value, str):
            return value
        raise self.error(where, f"field {path[1:]}: it is no escaped text")


def _path(loc: tuple[int | str, ...]) -> str:
    """Where pydantic found fault, list items counted from 1 as everywhere in messages."""
    return ".".join(str(part + 1 if isinstance(part, int) else part) for part in loc)


def _unknown(raw: Any, known: Any) -> str:
    """The first key of `raw` that `known` has not, dotted; "" when there is none."""
    if isinstance(raw, list) and isinstance(known, (list, tuple)):
        return next((found for pair in zip(raw, known, strict=False) if (found := _unknown(*pair))), "")
    if not isinstance(raw, dict) or not isinstance(known, dict):
        return ""
    for key, item in raw.items():
        if key not in known:
            return str(key)
        if found := _unknown(item, known[key]):
            return f"{key}.{found}"
    return ""
