"""SessionState: reduce the lines of a session log to a state. The only module that interprets them.

The line at the end of each turn carries Totals, so that a list of sessions does not read long logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    Record,
    RecordedCall,
    RecordedCompaction,
    RecordedStep,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.core.session.errors import LogRecordError
from kin_nb.core.session.lineage import with_ids

INTERRUPTED = "interrupted before it had a result"
"""The result of a call that the user, or the end of the program, interrupted."""
_RECORDS: Mapping[str, type[SessionRecord]] = {
    "turn": TurnRecord,
    "undo": UndoRecord,
    "clear": ClearRecord,
    "compact": CompactRecord,
}
"""Record classes by line type; the line "undo" holds a redo too."""


class Totals(Record):
    """Totals of the whole log, with cleared and undone turns. `tokens`: prompt and completion; `model`: the last turn's."""

    turns: int = 0
    tokens: int = 0
    model: str = ""

    def after(self, line: Mapping[str, Any]) -> Totals:
        """Return the totals after `line`. An invalid line may raise, or give wrong totals."""
        match line.get("type"):
            case "end" if "totals" in line:
                return Totals.model_validate(line["totals"])
            case "continued":
                return self._and(line["records"])
            case "turn" | "compact":
                return self._and([line["record"]])
            case "reply":  # its compaction has its own line
                return self._plus(_tokens({**line["step"], "compaction": None}))
            case "compaction":
                return self._plus(_own(line["compaction"]))
            case "run":
                return self._plus(_tokens(line["call"]))
        return self

    def _plus(self, tokens: int) -> Totals:
        return self.model_copy(update={"tokens": self.tokens + tokens}) if tokens else self

    def _and(self, records: list[Mapping[str, Any]]) -> Totals:
        turns = [record for record in records if record.get("type", "turn") == "turn"]
        model = turns[-1].get("model", "") if turns else self.model
        return Totals(turns=self.turns + len(turns), tokens=self.tokens + sum(map(_tokens, records)), model=model)


def _tokens(record: Mapping[str, Any]) -> int:
    """Return the tokens of a dumped turn, step or call, with everything inside it."""
    parts = filter(None, [record.get("compaction"), record.get("subagent")])
    inner = [*record.get("steps", ()), *record.get("calls", ())]
    return _own(record) + sum(map(_own, parts)) + sum(map(_tokens, inner))


def _own(record: Mapping[str, Any]) -> int:
    tokens: int = record.get("prompt_tokens", 0) + record.get("completion_tokens", 0)
    return tokens


@dataclass
class SessionState:
    """The state of a session according to its log. Created by `of`, and not changed afterwards."""

    header: dict[str, Any] = field(default_factory=dict)
    """The first line of type "session"; empty when there is none."""
    records: list[SessionRecord] = field(default_factory=list)
    """All records, oldest first. A turn without an "end" line is interrupted."""
    session_id: str = ""
    """The current id: it changes with clear and compact."""
    started: datetime | None = None
    """Time of the header, None if unknown."""
    last_activity: datetime | None = None
    """Time of the last line, None if unknown."""
    lost_after: set[int] = field(default_factory=set)
    """Numbers of the turns (0: before the first) after which records are missing, because they could not be written."""
    full_outputs: dict[str, str] = field(default_factory=dict)
    """File names of full outputs, by call id (full_outputs.py)."""
    totals: Totals = field(default_factory=Totals)
    unfinished_undos: list[dict[str, Any]] = field(default_factory=list)
    """The "undoing" lines, with "turns" and "files", of undos that started and were not completed."""
    call_times: dict[tuple[str, str], int] = field(default_factory=dict)
    """Times in milliseconds since 1970, by (line type, call id): "run" before the call, "result" after it. A line without
    a time is left out."""
    _begun: set[str] = field(default_factory=set)
    """Ids of calls that have a "run" line."""
    _answered: set[str] = field(default_factory=set)
    """Ids of calls that have a "result" line."""
    _turn: int = 0
    """The number of the turn that the next line belongs to, or comes after."""

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]], session: str = "", *, incomplete: bool = False) -> SessionState:
        """Read all lines of a log. `session`: the name of its folder; ids of turns that have none are derived from it.

        `incomplete`: records are missing after the last line. Unknown line types are skipped.
        Raises LogRecordError for an invalid line of a known type.
        """
        state = cls()
        line: dict[str, Any] = {}
        for number, line in enumerate(lines, 1):
            try:
                state._read(line)
            except (LookupError, TypeError, ValueError) as error:
                what = f"record {number}, of type {line.get('type')}, is not valid in this version of kin_nb"
                raise LogRecordError(what) from error
        state.records = [_ended(record) if isinstance(record, TurnRecord) else record for record in state.records]
        state.records = _with_ids(state.records, session) if session else state.records
        state.session_id = state.session_id or str(state.header.get("session") or session)
        state.started, state.last_activity = _time_of(state.header), _time_of(line)
        if incomplete:
            state.lost_after.add(state._turn)
        return state

    def open_calls(self, turn: TurnRecord) -> set[str]:
        """Return the ids of the calls of the turn's last step that may have started and have no result in the log.

        Empty for a turn that was not interrupted in a call. `turn`: one of `records`, usually the last turn.
        """
        if not turn.steps or all(call.status != "interrupted" for call in turn.steps[-1].calls):
            return set()
        return (self._begun - self._answered) & {call.id for call in turn.steps[-1].calls}

    def _read(self, line: dict[str, Any]) -> None:
        kind = line.get("type")
        if kind in {"undo", "turn", "reply", "continued"}:
            self.unfinished_undos.clear()
        match kind:
            case "session":
                self.header = self.header or line
            case "system_prompt":
                self.header = {
                    **self.header,
                    **{key: line[key] for key in ("system_prompt_text", "system_prompt_sent")},
                }
            case "renamed":
                self.session_id = str(line.get("session_id"))
            case "resumed" if line.get("incomplete"):
                self.lost_after.add(self._turn)
            case "undoing":
                self.unfinished_undos.append(line)
            case "continued":
                self._continue(line)
            case "turn" | "undo" | "clear" | "compact":
                self._append(_RECORDS[kind].model_validate(line["record"]), line)
            case _:
                if kind in {"run", "result"}:
                    self._note_call(kind, line)
                self._extend(line)

    def _continue(self, line: dict[str, Any]) -> None:
        new = [_RECORDS[record["type"]].model_validate(record) for record in line["records"]]
        self.records += new
        self.totals = self.totals.after(line)
        self._turn = max((record.turn if isinstance(record, TurnRecord) else 0 for record in new), default=self._turn)

    def _append(self, record: SessionRecord, line: dict[str, Any]) -> None:
        self.records.append(record)
        self.totals = self.totals.after(line)
        if isinstance(record, TurnRecord):
            self._turn = record.turn

    def _extend(self, line: dict[str, Any]) -> None:
        """Extend the last turn. A line of a turn that was not logged is skipped: it must not reach another turn."""
        turn = self.records[-1] if self.records else None
        if not isinstance(turn, TurnRecord):
            return
        self.records[-1] = _extended(turn, line)
        if self.records[-1] is not turn and line.get("type") != "end":  # its totals are counted here, not read
            self.totals = self.totals.after(line)

    def _note_call(self, kind: str, line: dict[str, Any]) -> None:
        """Note the time of a call's start or end, and its full output; a line without a call id is skipped."""
        call = line.get("call")
        call_id = call.get("id") if isinstance(call, dict) else None
        if not isinstance(call_id, str):
            return
        (self._begun if kind == "run" else self._answered).add(call_id)
        if kind == "result" and "whole" in line:
            self.full_outputs[call_id] = str(line["whole"])
        if isinstance(time := line.get("time"), int):
            self.call_times[kind, call_id] = time


def _extended(turn: TurnRecord, line: dict[str, Any]) -> TurnRecord:
    """Return `turn` with the data of `line`."""
    match line.get("type"):
        case "failed" if turn.outcome == "done":
            return TurnRecord(**{**dict(turn), "outcome": "error", "message": line["message"]})
        case _ if turn.outcome != "running":
            return turn
        case "reply":
            step = RecordedStep.model_validate(line["step"])
            return turn.model_copy(update={"steps": (*turn.steps, step), "dmail": None, "compaction": None})
        case "run" | "result" if turn.steps:
            return _with_call(turn, line["call"])
        case "dmail":
            return TurnRecord(**{**dict(turn), "dmail": line["dmail"]})
        case "compaction":
            new = RecordedCompaction.model_validate(line["compaction"])
            return turn.model_copy(update={"compaction": new.joined_to(turn.compaction)})
        case "warning":
            return TurnRecord(**{**dict(turn), "warnings": (*turn.warnings, line["message"])})
        case "end":
            return TurnRecord(**{**dict(turn), **line["turn"]})
    return turn


def _with_call(turn: TurnRecord, fields: dict[str, Any]) -> TurnRecord:
    step = turn.steps[-1]
    calls = tuple(RecordedCall(**{**dict(call), **fields}) if call.id == fields["id"] else call for call in step.calls)
    return turn.model_copy(update={"steps": (*turn.steps[:-1], step.model_copy(update={"calls": calls}))})


def _ended(turn: TurnRecord) -> TurnRecord:
    """Return the turn; as interrupted when it has no "end" line."""
    if turn.outcome != "running":
        return turn
    interrupted = {"status": "interrupted", "output": INTERRUPTED}
    steps = []
    for step in turn.steps:
        calls = tuple(call.model_copy(update=interrupted) if call.status == "pending" else call for call in step.calls)
        steps.append(step.model_copy(update={"calls": calls}))
    ended = {"outcome": "interrupted", "message": "the session ended here", "no_reply": True}  # as far as is known
    return turn.model_copy(update={"steps": tuple(steps), **ended})


def _with_ids(records: Sequence[SessionRecord], session: str) -> list[SessionRecord]:
    """Return the records with ids for turns that were logged without one."""
    turns = [record for record in records if isinstance(record, TurnRecord)]
    if all(turn.id for turn in turns):
        return list(records)
    named = iter(with_ids(turns, session))
    return [next(named) if isinstance(record, TurnRecord) else record for record in records]


def local_time(milliseconds: float) -> datetime:
    """Convert milliseconds since 1970 to local time. Raises ValueError or OverflowError when out of range."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).astimezone()


def _time_of(line: dict[str, Any]) -> datetime | None:
    try:
        return local_time(line["time"])
    except (LookupError, TypeError, ValueError, OverflowError, OSError):
        return None
