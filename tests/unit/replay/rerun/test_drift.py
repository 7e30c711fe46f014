"""What counts as drift when a tool runs again: drift_table.jsonl, a pair of results a line, and what is reported of them.

A line has `kind`; `rules` (those that make an equivalent pair equal) or `near` (the rule that must not); the `command`, or
a `tool` and its `arguments`; the two outputs; fields in which the calls differ (`then`, `now`); and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kin_nb.core.records import RecordedCall, RecordedDecision
from kin_nb.replay.rerun.drift import compare_call
from kin_nb.replay.rerun.rules import built_in_rules
from tests.table import each_row

TABLE = [json.loads(line) for line in (Path(__file__).parent / "drift_table.jsonl").read_text().splitlines()]


def call(output="", *, tool="bash", arguments='{"command": "make test"}', status="ok", exit=0, **fields):  # noqa: A002
    return RecordedCall(id="c", name=tool, arguments=arguments, status=status, output=output, exit=exit, **fields)


def pair(row: dict[str, Any]) -> tuple[RecordedCall, RecordedCall]:
    """(as recorded, as it came out now)"""
    arguments = row.get("arguments") or json.dumps({"command": row["command"]})
    same = {**call(tool=row.get("tool", "bash"), arguments=arguments).model_dump()}
    recorded, actual = ({**same, "output": row[which]} for which in ("recorded", "actual"))
    return tuple(RecordedCall(**{**each, **row.get(f, {})}) for each, f in ((recorded, "then"), (actual, "now")))


@each_row("row", TABLE, ids=lambda row: f"{row['kind']}: {row['program']}: {row['why']}")
def test_how_two_results_of_a_call_compare(row):
    drift = compare_call(*pair(row))
    assert (drift.kind, drift.rules) == (row["kind"], tuple(row.get("rules", ())))
    assert len(drift.detail) < 600
    assert "\n" not in drift.detail


@each_row("row", [row for row in TABLE if row["kind"] == "equivalent"], ids=lambda row: row["why"])
def test_what_is_equivalent_is_so_the_other_way_round(row):
    swapped = {**row, "recorded": row["actual"], "actual": row["recorded"]}
    assert compare_call(*pair(swapped)).kind == "equivalent"


@each_row("name", [rule.name for rule in built_in_rules()])
def test_every_rule_has_a_pair_that_is_equivalent_and_near_ones_that_are_not(name):
    assert [row for row in TABLE if name in row.get("rules", ())]
    assert len([row for row in TABLE if row.get("near") == name]) >= 2


def test_a_disk_that_was_full_is_no_difference():
    note = "[note: not covered by undo: the file history in ~/.kin-code/checkpoints cannot be used (disk is full)]"
    noted = call(f"[The user edited this]\n{note}\nfine").model_copy(update={"no_undo": note})
    fine = call("[The user edited this]\nfine")
    assert compare_call(noted, fine).kind == compare_call(fine, noted).kind == "same"
    assert compare_call(noted, call("other")).kind != "same"
    printed = call(f"{note}\nfine")
    assert compare_call(printed, call("fine")).kind == "text", "what a program printed, and what it reads like"


def test_the_table_has_every_kind_and_no_line_twice():
    kinds = [row["kind"] for row in TABLE]
    assert all(kinds.count(kind) >= 5 for kind in ("same", "equivalent", "unordered", "text", "effect", "refused"))
    texts = [json.dumps({**row, "why": ""}, sort_keys=True) for row in TABLE]
    assert len(set(texts)) == len(texts) >= 120


DETAILS = {
    "an exit code": ({"now": {"exit": 1}}, "exit code: recorded 0, now 1"),
    "a status, and the tool's error": (
        {"actual": "\x1b[31ma.py has no such text.\x1b[0m\nRead it again.", "now": {"status": "error"}},
        "status: recorded ok, now error: a.py has no such text. ⏎ Read it again.",
    ),
    "a status": ({"then": {"status": "error"}}, "status: recorded error, now ok"),
    "a status without a word": (
        {"actual": "", "now": {"status": "interrupted"}},
        "status: recorded ok, now interrupted",
    ),
    "the first line that differs": ({"recorded": "a\nb\nc", "actual": "a\nB\nc"}, "line 2: recorded 'b', now 'B'"),
    "a line that is there only now": ({"recorded": "a", "actual": "a\nmore"}, "line 2, only now: 'more'"),
    "what a rule allowed": (
        {"command": "pytest", "recorded": "1 passed in 1s", "actual": "1 passed in 2s"},
        "the seconds in the summary line, and the `=` that fill it up",
    ),
    "a file": (
        {"then": {"files": [{"path": "a.py", "before": "1" * 64, "after": "2" * 64}]}},
        "a.py: changed when recorded, not now",
    ),
    "why it was refused": (
        {"now": {"status": "refused", "decision": {"verdict": "deny", "by": "headless", "reason": "nobody is here"}}},
        "recorded as ok, now refused: nobody is here",
    ),
}


@each_row("what", DETAILS)
def test_the_detail_names(what):
    row, says = DETAILS[what]
    assert compare_call(*pair({"command": "make", "recorded": "a", "actual": "a", **row})).detail == says


def test_refused_now_is_refused_unless_it_was_refused_then():
    no = RecordedDecision(verdict="deny", by="headless", reason="nobody could be asked")
    refused = call("no", status="refused", exit=None, decision=no)
    assert compare_call(call(), refused).kind == "refused"
    assert compare_call(refused, refused).kind == "same"
