"""What a list of sessions says of each: carried along in the log, so that no long log has to be read for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kin_nb.core.records import Record, Sent, SessionRecord, TurnRecord


class Totals(Record):
    """Over the whole log, whatever was cleared or compacted. `tokens`: prompt and completion; `model`: the last turn's."""

    turns: int = 0
    tokens: int = 0
    model: str = ""

    @classmethod
    def of(cls, records: Iterable[SessionRecord]) -> Totals:
        paid = [record for record in records if isinstance(record, Sent)]
        turns = [record for record in paid if isinstance(record, TurnRecord)]
        tokens = sum(record.prompt_tokens + record.completion_tokens for record in paid)
        return cls(turns=len(turns), tokens=tokens, model=turns[-1].model if turns else "")

    def after(self, line: Mapping[str, Any]) -> Totals:
        """The totals when `line` has been appended. A line that is none of ours may raise, or give odd totals."""
        match line.get("type"):
            case "end" if "totals" in line:
                return Totals.model_validate(line["totals"])
            case "continued":
                return self._and(line["records"])
            case "turn" | "compact":
                return self._and([line["record"]])
            case "reply":  # its compaction has a line of its own
                return self.model_copy(update={"tokens": self.tokens + _tokens({**line["step"], "compaction": None})})
            case "compaction":
                return self.model_copy(update={"tokens": self.tokens + _own(line["compaction"])})
            case "run":
                return self.model_copy(update={"tokens": self.tokens + _tokens(line["call"])})
        return self

    def _and(self, records: list[Mapping[str, Any]]) -> Totals:
        turns = [record for record in records if record.get("type", "turn") == "turn"]
        model = turns[-1].get("model", "") if turns else self.model
        return Totals(turns=self.turns + len(turns), tokens=self.tokens + sum(map(_tokens, records)), model=model)


def _tokens(record: Mapping[str, Any]) -> int:
    """Of a turn, a step or a call as it was dumped, and of all that it holds."""
    parts = filter(None, [record.get("compaction"), record.get("subagent")])
    inner = [*record.get("steps", ()), *record.get("calls", ())]
    return _own(record) + sum(map(_own, parts)) + sum(map(_tokens, inner))


def _own(record: Mapping[str, Any]) -> int:
    tokens: int = record.get("prompt_tokens", 0) + record.get("completion_tokens", 0)
    return tokens
