"""SessionState: what the lines of a log come to, for those who resume it and for lists of sessions."""

from __future__ import annotations

from typing import Any

from kin_nb.core.records import ClearRecord, CompactRecord, RecordedCall, RecordedCompaction, RecordedStep, TurnRecord
from kin_nb.core.session.state import SessionState, Totals

HEADER = {"type": "session", "session": "s", "time": 1}
UNDOING = {"type": "undoing", "turns": [1], "files": []}


def turn(number: int = 1, **fields: Any) -> dict[str, Any]:
    record = TurnRecord(turn=number, prompt="go", id=f"{number:016x}", **fields)
    return {"type": "turn", "record": record.model_dump(mode="json")}


def reply(*ids: str, tokens: int = 0) -> dict[str, Any]:
    calls = tuple(RecordedCall(id=id_, name="bash", arguments="{}") for id_ in ids)
    step = RecordedStep(calls=calls, prompt_tokens=tokens)
    return {"type": "reply", "step": step.model_dump(mode="json", exclude_defaults=True)}


def call(type_: str, id_: str, time: int, **fields: Any) -> dict[str, Any]:
    return {"type": type_, "time": time, "call": {"id": id_, **fields}}


END = {"type": "end", "turn": {"outcome": "done"}}


def test_the_times_of_calls_are_those_of_their_lines():
    lines = [HEADER, turn(), reply("a", "b"), call("run", "a", 5), call("result", "a", 7, status="ok"), END]
    late = {"type": "result", "call": {"id": "b"}}
    assert SessionState.of([*lines, late]).call_times == {("run", "a"): 5, ("result", "a"): 7}


def test_calls_that_ran_when_the_log_ends_are_open():
    lines = [HEADER, turn(), reply("a", "b", "c"), call("run", "a", 5), call("run", "b", 5)]
    state = SessionState.of([*lines, call("result", "a", 7, status="ok")])
    (last,) = state.records
    assert [c.status for c in last.calls] == ["ok", "interrupted", "interrupted"]
    assert state.open_calls(last) == {"b"}


def test_no_call_of_a_turn_that_ended_is_open():
    state = SessionState.of([HEADER, turn(), reply("a"), call("run", "a", 5), call("result", "a", 6, status="ok"), END])
    assert state.open_calls(state.records[0]) == set()


def test_an_undo_that_something_follows_is_not_unfinished(subtests):
    for after in [turn(2), reply(), {"type": "continued", "records": []}]:
        with subtests.test(after=after):
            lines = [HEADER, turn(), END, UNDOING]
            assert SessionState.of(lines).unfinished_undos == [UNDOING]
            assert SessionState.of([*lines, {"type": "resumed"}]).unfinished_undos == [UNDOING]
            assert SessionState.of([*lines, after]).unfinished_undos == []


def test_records_are_missing_after_the_turn_that_a_resume_or_the_end_marks():
    resumed = {"type": "resumed", "incomplete": True}
    lines = [HEADER, resumed, turn(1), END, turn(2), resumed]
    assert SessionState.of(lines).lost_after == {0, 2}
    assert SessionState.of([*lines, turn(3)], incomplete=True).lost_after == {0, 2, 3}


def test_totals_count_each_line_once_and_believe_none():
    compaction = RecordedCompaction(summary="s", prompt_tokens=30)
    compact = CompactRecord(id="c", compaction=RecordedCompaction(summary="s", completion_tokens=4), model="n")
    lines = [
        *(HEADER, turn(1, model="m"), reply("a", tokens=100)),
        call("run", "a", 1, subagent={"profile": "p", "prompt_tokens": 7}),
        {"type": "compaction", "compaction": compaction.model_dump(mode="json")},
        {**END, "totals": {"turns": 99, "tokens": 99, "model": "?"}},
        *(reply(tokens=1_000), {"type": "clear", "record": ClearRecord(id="d").model_dump(mode="json")}),
        {"type": "compact", "record": compact.model_dump(mode="json")},
    ]
    state = SessionState.of(lines)
    assert state.totals == Totals(turns=1, tokens=141, model="m")
    assert sum(r.prompt_tokens + r.completion_tokens for r in state.records if not isinstance(r, ClearRecord)) == 141
