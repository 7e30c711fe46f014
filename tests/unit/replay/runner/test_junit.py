"""What CI servers read of a re-execution."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kin_nb.replay.run_diff import compare_runs
from kin_nb.replay.runner.results import CallResult, CellResult, ReplayReport, ReplayResult, UndoResult, junit_xml
from tests.unit.replay.sessions import recording, turn

REPORT = ReplayReport(
    "tools",
    Path("x.ipynb"),
    (
        CellResult(1, "same"),
        CellResult(2, "not compared"),
        CellResult(3, "differs", "line 1"),
        CellResult(4, "not run"),
    ),
    (),
    (
        CallResult(1, 1, "bash", "same"),
        CallResult(1, 1, "bash", "text", "line 2: \x1b[31m and \ud83d"),
        CallResult(1, 2, "bash", "refused", "now <refused> & gone"),
    ),
    undos=(UndoResult(1, 1, "undo", "effect", "a.py: changed"),),
)


def suite(*rows: ReplayResult) -> ET.Element:
    return ET.fromstring(junit_xml(rows))


def outcome(case: ET.Element) -> tuple[str | None, str, str]:
    (child,) = list(case) or [ET.Element("passed")]
    return case.get("name"), child.tag, child.get("message") or child.text or ""


def test_each_compared_cell_call_and_undo_is_a_case_with_its_detail():
    found = suite(ReplayResult.of("a/x.ipynb", REPORT))
    assert [outcome(case) for case in found.iter("testcase")] == [
        ("cell 1", "passed", ""),
        ("cell 3", "failure", "line 1"),
        ("cell 4", "skipped", "not run"),
        ("turn 1, step 1, bash", "passed", ""),
        ("turn 1, step 1, bash (2)", "failure", "line 2: \ufffd[31m and \ufffd"),
        ("turn 1, step 2, bash", "error", "now <refused> & gone"),
        ("undo after turn 1", "failure", "a.py: changed"),
    ]
    (inner,) = found.findall("testsuite")
    for element in (found, inner):
        assert [element.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["7", "3", "1", "1"]
    assert {case.get("classname") for case in found.iter("testcase")} == {"a/x.ipynb"}


def test_text_that_need_not_be_the_same_passes_and_is_shown():
    found = suite(ReplayResult.of("x.ipynb", replace(REPORT, fail_on="effect")))
    told = {name: (tag, text) for name, tag, text in map(outcome, found.iter("testcase"))}
    assert told["cell 3"] == ("system-out", "differs: line 1")
    assert told["undo after turn 1"][0] == "failure"


def test_a_notebook_that_could_not_run_is_an_error_and_the_others_are_there():
    found = suite(
        ReplayResult.failed("gone.ipynb", "it is gone"),
        ReplayResult.of("x.ipynb", replace(REPORT, error="cell 4: it broke")),
    )
    first, second = found.findall("testsuite")
    assert [outcome(case) for case in first] == [("the notebook", "error", "it is gone")]
    assert outcome(second[0]) == ("the notebook", "error", "cell 4: it broke")
    assert len(second) == 8


@pytest.mark.parametrize(("error", "tag"), [("cell 4: it broke", "skipped"), ("", "failure")])
def test_a_call_that_never_came_is_a_failure_unless_the_run_stopped(error, tag):
    report = replace(REPORT, cells=(), undos=(), calls=(CallResult(1, 1, "bash", "not run", "why"),), error=error)
    assert [outcome(case)[1] for case in suite(ReplayResult.of("x.ipynb", report)).iter("testcase")][-1] == tag
    assert report.exit_code == (1 if error else 3)


def test_a_live_run_has_a_case_for_each_turn():
    live = compare_runs(recording(turn(1, "first")), recording(turn(1, "first"), turn(2, "second")))
    report = ReplayReport("live", Path("x.ipynb"), (), (), (), live=live)
    cases = [outcome(case)[:2] for case in suite(ReplayResult.of("x.ipynb", report)).iter("testcase")]
    assert cases == [("turn 1", "passed"), ("turn 2, only now", "failure")]
    assert report.exit_code == 3


def test_a_usual_reader_reads_it():
    junitparser = pytest.importorskip("junitparser")
    read = junitparser.JUnitXml.fromstring(
        junit_xml([ReplayResult.of("x.ipynb", REPORT), ReplayResult.failed("y.ipynb", "gone")])
    )
    assert (read.tests, read.failures, read.errors, read.skipped) == (8, 3, 2, 1)
