"""What a list of sessions says of each: carried along in the log, so that no long log has to be read for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kin_nb.core.session.records import Record, TurnRecord


class Totals(Record):
    """Over the whole log, whatever was cleared or compacted. `tokens`: prompt and completion; `model`: the last turn's."""

    turns: int = 0
    tokens: int = 0
    model: str = ""

    @classmethod
    def of(cls, turns: Sequence[TurnRecord]) -> Totals:
        tokens = sum(turn.prompt_tokens + turn.completion_tokens for turn in turns)
        return cls(turns=len(turns), tokens=tokens, model=turns[-1].model if turns else "")

    def after(self, line: Mapping[str, Any]) -> Totals:
        """The totals when `line` has been appended. A line that is none of ours may raise, or give odd totals."""
        match line.get("type"):
            case "end" if "totals" in line:
                return Totals.model_validate(line["totals"])
            case "continued":
                return self._and(line["turns"])
            case "turn":
                return self._and([line["record"]])
            case "reply":
                return self.model_copy(update={"tokens": self.tokens + _tokens(line["step"])})
            case "run":
                return self.model_copy(update={"tokens": self.tokens + _tokens(line["call"])})
        return self

    def _and(self, turns: list[Mapping[str, Any]]) -> Totals:
        model = turns[-1].get("model", "") if turns else self.model
        return Totals(turns=self.turns + len(turns), tokens=self.tokens + sum(map(_tokens, turns)), model=model)


def _tokens(record: Mapping[str, Any]) -> int:
    """Of a turn, a step or a call as it was dumped, and of all that it holds."""
    parts = filter(None, [record.get("compaction"), record.get("subagent")])
    inner = [*record.get("steps", ()), *record.get("calls", ()), *record.get("dropped", ())]
    return _own(record) + sum(map(_own, parts)) + sum(map(_tokens, inner))


def _own(record: Mapping[str, Any]) -> int:
    tokens: int = record.get("prompt_tokens", 0) + record.get("completion_tokens", 0)
    return tokens
