"""What counts as drift when a tool runs again: a table of pairs."""

from __future__ import annotations

import pytest

from kin_nb.core.session.records import FileChange, RecordedCall, RecordedDecision
from kin_nb.replay.drift import compare_call


def call(output="", *, tool="bash", arguments='{"command": "make test"}', status="ok", exit=0, **fields):  # noqa: A002
    return RecordedCall(id="c", name=tool, arguments=arguments, status=status, output=output, exit=exit, **fields)


def unittest_run(seconds, count=3):
    return f"...\n{'-' * 70}\nRan {count} tests in {seconds}s\n\nOK\n"


def pytest_run(words, seconds, width=80):
    return f"tests/test_a.py ..\n\n{f' {words} in {seconds} '.center(width, '=')}"


TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    return 1 / x\n{}ZeroDivisionError: {}\n'
)
BEFORE, AFTER, OTHER = "1" * 64, "2" * 64, "3" * 64

TEXTS = {
    "the same": ("a\n", "a\n", "same", ()),
    "unittest's seconds": (unittest_run("0.001"), unittest_run("12.040"), "equivalent", (1,)),
    "unittest's count": (unittest_run("0.001"), unittest_run("0.001", 4), "text", ()),
    "unittest's line without its dashes": ("Ran 3 tests in 0.001s\n", "Ran 3 tests in 0.002s\n", "text", ()),
    "unittest's line within another": ("# Ran 3 tests in 0.001s", "# Ran 3 tests in 0.002s", "text", ()),
    "pytest's seconds": (pytest_run("2 passed", "0.01s"), pytest_run("2 passed", "12.31s"), "equivalent", (2,)),
    "pytest's minutes": (
        pytest_run("2 passed", "0.01s"),
        pytest_run("2 passed", "61.31s (0:01:01)"),
        "equivalent",
        (2,),
    ),
    "pytest -q": ("2 failed, 1 passed in 0.10s", "2 failed, 1 passed in 0.11s", "equivalent", (2,)),
    "pytest's result": (pytest_run("2 passed", "0.01s"), pytest_run("1 failed, 1 passed", "0.01s"), "text", ()),
    "something else in seconds": ("built in 0.10s", "built in 0.11s", "text", ()),
    "a traceback's marker line": (
        TRACEBACK.format("           ~~^~~\n", "division by zero"),
        TRACEBACK.format("", "division by zero"),
        "equivalent",
        (3,),
    ),
    "a traceback that shows the whole statement": (
        TRACEBACK.format("    ~~~~^\n        more,\n        ^^^^^\n    )\n    ^\n", "division by zero"),
        TRACEBACK.format("", "division by zero"),
        "equivalent",
        (3,),
    ),
    "lines under a source line that are no statement": (
        TRACEBACK.format("    printed by the program\n", "a"),
        TRACEBACK.format("", "a"),
        "text",
        (),
    ),
    "a traceback's error": (TRACEBACK.format("", "a"), TRACEBACK.format("           ~~^~~\n", "b"), "text", ()),
    "markers that follow no source line": ("x\n    ^^^\n", "x\n", "text", ()),
    "both rules": (
        pytest_run("1 passed", "0.01s") + "\n" + unittest_run("0.1"),
        pytest_run("1 passed", "0.02s") + "\n" + unittest_run("0.2"),
        "equivalent",
        (1, 2),
    ),
    "a bare number": ("42", "43", "text", ()),
    "a duration": ("took 0.1 s", "took 0.2 s", "text", ()),
    "a date": ("2026-11-01", "2026-11-02", "text", ()),
    "an address": ("<A object at 0x7f01>", "<A object at 0x7f02>", "text", ()),
    "lines in another order": ("a\nb\n", "b\na\n", "text", ()),
}


@pytest.mark.parametrize("what", TEXTS)
def test_how_two_outputs_of_a_command_compare(what):
    recorded, actual, kind, rules = TEXTS[what]
    drift = compare_call(call(recorded), call(actual))
    assert (drift.kind, drift.rules) == (kind, rules)


def test_rules_are_for_commands_only():
    drift = compare_call(call(unittest_run("0.1"), tool="read_file"), call(unittest_run("0.2"), tool="read_file"))
    assert drift.kind == "text"


LISTINGS = {
    "grep": ("grep", "{}", "unordered"),
    "list_dir": ("list_dir", "{}", "unordered"),
    "read_file": ("read_file", "{}", "text"),
    "find": ("bash", '{"command": "find . -name \'*.py\'"}', "unordered"),
    "grep -rn": ("bash", '{"command": "grep -rn todo src"}', "unordered"),
    "a sorted listing": ("bash", '{"command": "find . | sort"}', "text"),
    "two commands": ("bash", '{"command": "ls; make"}', "text"),
    "another program": ("bash", '{"command": "lsof"}', "text"),
}


@pytest.mark.parametrize("what", LISTINGS)
def test_only_listings_may_come_in_another_order(what):
    tool, arguments, kind = LISTINGS[what]
    recorded, actual = (call(text, tool=tool, arguments=arguments) for text in ("a:1\nb:2", "b:2\na:1"))
    assert compare_call(recorded, actual).kind == kind
    assert compare_call(recorded, actual.model_copy(update={"output": "b:2\na:1\nc:3"})).kind == "text"


CHANGE = FileChange(path="a.py", before=BEFORE, after=AFTER)
EFFECTS = {
    "exit": ({}, {"exit": 1}, "exit code: recorded 0, now 1"),
    "status": ({}, {"status": "error"}, "status: recorded ok, now error"),
    "arguments": ({}, {"arguments": '{"command": "rm -rf /"}'}, "another call ran: bash"),
    "edited arguments": ({"edited_arguments": '{"command": "ls"}'}, {}, "another call ran"),
    "a file not changed": ({"files": (CHANGE,)}, {}, "a.py: changed when recorded, not now"),
    "a file changed": ({}, {"files": (CHANGE,)}, "a.py: changed now, not when recorded"),
    "another content": (
        {"files": (CHANGE,)},
        {"files": (CHANGE.model_copy(update={"after": OTHER}),)},
        "a.py: changed otherwise",
    ),
    "another file before": (
        {"files": (CHANGE,)},
        {"files": (CHANGE.model_copy(update={"before": None, "after": OTHER}),)},
        "a.py: it was another file before",
    ),
}


@pytest.mark.parametrize("what", EFFECTS)
def test_another_effect_outweighs_the_text(what):
    recorded, actual, says = EFFECTS[what]
    drift = compare_call(call("same", **recorded), call("same", **actual))
    assert drift.kind == "effect"
    assert drift.detail.startswith(says)


def test_the_same_content_in_the_end_is_the_same_effect():
    recorded = call("x", files=(CHANGE,))
    actual = call("x", files=(CHANGE.model_copy(update={"before": OTHER}),))
    assert compare_call(recorded, actual).kind == "same"


def test_how_the_arguments_are_spelled_does_not_matter():
    recorded = call(arguments='{"command":"make test"}')
    assert compare_call(recorded, call(arguments='{ "command" : "make\\u0020test" }')).kind == "same"


def test_refused_now_is_refused_unless_it_was_refused_then():
    no = RecordedDecision(verdict="deny", by="headless", reason="nobody could be asked")
    refused = call("no", status="refused", exit=None, decision=no)
    drift = compare_call(call(), refused)
    assert (drift.kind, drift.detail) == ("refused", "recorded as ok, now refused: nobody could be asked")
    assert compare_call(refused, refused).kind == "same"


def test_the_detail_names_the_first_line_that_differs():
    assert compare_call(call("a\nb\nc"), call("a\nB\nc")).detail == "line 2: recorded 'b', now 'B'"
    assert compare_call(call("a"), call("a\nmore")).detail == "line 2, only now: 'more'"
