"""What a re-execution says and which code it exits with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.playback.locate import examples_folder, is_shipped
from kin_nb.replay.runner.compare_outputs import compare_cells
from kin_nb.replay.runner.results import CallResult, CellResult, ReplayReport, call_results, not_applied, turn_results
from kin_nb.replay.runner.run_environment import scratch_notice
from tests.table import each_row
from tests.unit.replay.sessions import busy_turn, recording


def report(kinds=(), cells=(), error=""):
    calls = tuple(CallResult(1, 1, "bash", kind, "why") for kind in kinds)
    results = tuple(CellResult(n, status, "what") for n, status in enumerate(cells, 1))
    made = busy_turn()
    first = made.steps[0].model_copy(update={"calls": made.steps[0].calls[:1] * len(kinds)})
    turns = turn_results(recording(made.model_copy(update={"steps": (first, *made.steps[1:])})), calls)
    return ReplayReport("tools", Path("x.ipynb"), results, turns, calls, error=error)


CODES = {
    "nothing": ((), (), "", 0),
    "harmless": (("same", "equivalent", "unordered", "played"), ("same", "not compared"), "", 0),
    "text drift": (("same", "text"), (), "", 3),
    "effect drift": (("effect",), (), "", 3),
    "a call that never came": (("not run",), (), "", 3),
    "a cell that differs": ((), ("same", "differs"), "", 3),
    "refused outweighs drift": (("text", "refused"), (), "", 1),
    "an error outweighs drift": (("text",), ("error",), "", 1),
    "a dead kernel": ((), (), "cell 1: the kernel died", 1),
}


@each_row("what", CODES)
def test_exit_code(what):
    kinds, cells, error, code = CODES[what]
    assert report(kinds, cells, error).exit_code == code


LENIENT = {
    "text drift": (("same", "text"), ("differs",), 0),
    "effect drift": (("text", "effect"), (), 3),
    "a call that never came": (("not run",), (), 3),
    "what could not be done": (("not re-run",), (), 3),
    "a refused call": (("text", "refused"), (), 1),
    "a cell that failed": ((), ("error",), 1),
}


@each_row("what", LENIENT)
def test_exit_code_where_only_effects_count(what):
    kinds, cells, code = LENIENT[what]
    lenient = replace(report(kinds, cells), fail_on="effect")
    assert lenient.exit_code == code
    assert ("cell 1: differs: what" in lenient.text()) is ("differs" in cells), "it is told all the same"


def test_files_that_are_not_in_the_scratch_copy_fail():
    lacking = replace(report(), mode="playback", not_applied=("turn 1: a.py: why",))
    assert lacking.exit_code == 3
    assert "not in the scratch copy: turn 1: a.py: why" in lacking.text()


def test_the_table_counts_by_turn_and_names_each_drift():
    text = report(("same", "same", "text"), ("same", "differs", "not compared"), "cell 3: it broke").text()
    assert "   1      2      3  2 same, 1 text" in text
    assert "turn 1, step 1, bash: text: why" in text
    assert "cell 2: differs: what" in text
    assert "as it was recorded" not in text
    assert "Stopped: cell 3: it broke" in text


def test_the_last_word_is_what_this_way_of_replaying_proves():
    assert "Every tool call came out as recorded." in report(("same", "equivalent"), (), "").text()
    played = replace(report((), ("same", "differs", "not compared"), ""), mode="playback")
    assert "1 of 2 compared code cells show the saved output." in played.text()


def executed(*kin):
    outputs = [new_output("display_data", {}, metadata={"kin": {"kind": "call", **entry}}) for entry in kin]
    return new_notebook(cells=[new_code_cell("%%kin", outputs=outputs)])


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        (("refused", "same"), "1 tool call was refused: no one can approve it here."),
        (("refused", "text", "refused"), "2 tool calls were refused: no one can approve them here."),
        (("text",), ""),
    ],
)
def test_what_was_refused_says_how_to_allow_it_unless_that_was_said(kinds, says):
    advice = "If you trust this notebook: --approve recorded runs what was approved when it was recorded."
    lines = report(kinds).text().split("\n")
    assert [line for line in lines if "--approve" in line or "no one can" in line] == ([says, advice] if says else [])
    assert "--approve" not in replace(report(kinds), approve_recorded=True).text()


def test_drift_is_read_from_each_calls_own_output():
    drift = {"kind": "text", "detail": "line 1"}
    nb = executed(
        {"turn": 1, "step": 1, "id": "c1", "drift": drift}, {"turn": 1, "step": 2, "id": "c2", "drift": drift}
    )
    results = call_results(nb, recording(busy_turn()), cells={}, tools=True)
    assert (results[0].tool, results[0].detail) == ("bash", "line 1")
    assert [result.kind for result in results] == ["text", "not run"]


def test_a_call_that_says_nothing_of_drift_did_not_run_and_is_played_in_playback():
    nb = executed({"turn": 1, "step": 1, "id": "c1"})
    assert [r.kind for r in call_results(nb, recording(busy_turn()), cells={}, tools=True)] == ["not run", "not run"]
    assert [r.kind for r in call_results(nb, recording(busy_turn()), cells={}, tools=False)] == ["played", "not run"]


def test_calls_of_two_branches_with_one_number_are_told_apart_by_their_cells():
    one, other = busy_turn(), busy_turn().model_copy(update={"id": "b" * 16})
    drift = {"kind": "text", "detail": "line 1"}
    nb = executed({"turn": 1, "step": 1, "id": "c1", "drift": {"kind": "same", "detail": ""}})
    nb.cells += executed({"turn": 1, "step": 1, "id": "c1", "drift": drift}).cells
    both = recording(one, other)
    results = call_results(nb, both, cells={one.id: 0, other.id: 1}, tools=True)
    assert [result.kind for result in results] == ["same", "not run", "text", "not run"]
    assert [turn.drift for turn in turn_results(both, results)] == [
        {"same": 1, "not run": 1},
        {"text": 1, "not run": 1},
    ]


def cell(*outputs, count=1, source="x", **metadata):
    return new_code_cell(source, outputs=list(outputs), execution_count=count, metadata=metadata)


def stream(text, name="stdout"):
    return new_output("stream", text=text, name=name)


def data(**bundle):
    return new_output("display_data", {mime.replace("_", "/"): text for mime, text in bundle.items()})


CELLS = {
    "the same": (cell(stream("a")), cell(stream("a")), "same", ""),
    "a stream in pieces": (cell(stream("ab")), cell(stream("a"), stream("b")), "same", ""),
    "another count": (cell(stream("a"), count=1), cell(stream("a"), count=9), "same", ""),
    "an image": (cell(data(image_png="1", text_plain="i")), cell(data(image_png="2", text_plain="i")), "same", ""),
    "stripped": (cell(count=None), cell(stream("a")), "not compared", ""),
    "told not to": (cell(stream("a"), tags=["nbval-ignore-output"]), cell(stream("b")), "not compared", ""),
    "another stream": (
        cell(stream("a")),
        cell(stream("a", "stderr")),
        "differs",
        "saved stream stdout, now stream stderr",
    ),
    "another line": (cell(stream("a\nb")), cell(stream("a\nc")), "differs", "stdout, line 2: saved 'b', now 'c'"),
    "plain text first": (
        cell(data(text_html="<b>1</b>", text_plain="1")),
        cell(data(text_html="<b>2</b>", text_plain="2")),
        "differs",
        "text/plain, line 1: saved '1', now '2'",
    ),
    "one more": (cell(stream("a")), cell(stream("a"), data(text_plain="b")), "differs", "saved 1 outputs, now 2"),
}


@each_row("what", CELLS)
def test_how_stored_and_new_outputs_compare(what):
    before, after, status, detail = CELLS[what]
    stored, new = new_notebook(cells=[before]), new_notebook(cells=[after])
    assert compare_cells(stored, new, None, tools=False) == (CellResult(1, status, detail),)


def test_with_tools_only_ordinary_cells_are_compared():
    stored = new_notebook(cells=[cell(stream("a"), source="%%kin\ngo"), cell(stream("a"))])
    new = new_notebook(cells=[cell(stream("b"), source="%%kin\ngo"), cell(stream("b"))])
    assert [result.status for result in compare_cells(stored, new, None, tools=True)] == ["not compared", "differs"]


def ran_again(**drift):
    return new_output("display_data", {}, metadata={"kin": {"kind": "call", "drift": drift}})


@pytest.mark.parametrize(("kind", "detail"), [("effect", "after drift: stdout, "), ("equivalent", "stdout, ")])
def test_a_cell_that_differs_after_a_call_drifted_says_so(kind, detail):
    stored = new_notebook(cells=[cell(source="%%kin\ngo"), cell(stream("a"))])
    new = new_notebook(cells=[cell(ran_again(kind=kind), source="%%kin\ngo"), cell(stream("b"))])
    assert compare_cells(stored, new, None, tools=True)[1].detail.startswith(detail)


def test_of_cells_that_differ_all_but_the_first_say_so():
    stored, new = (new_notebook(cells=[cell(stream(text)) for text in texts]) for texts in ("abc", "xby"))
    details = [result.detail[:13] for result in compare_cells(stored, new, None, tools=False)]
    assert details == ["stdout, line ", "", "after drift: "]


def test_what_a_scratch_copy_says_is_shown_and_not_compared():
    notice = scratch_notice("Not in the scratch copy", ["a.py: why"], place="turn 1", missing=["a.py: why"])
    said = new_output("display_data", dict(notice.data), metadata=notice.metadata)
    stored, new = new_notebook(cells=[cell(stream("a"))]), new_notebook(cells=[cell(stream("a"), said)])
    assert compare_cells(stored, new, None, tools=False) == (CellResult(1, "same"),)
    assert not_applied(new) == ("turn 1: a.py: why",)


def test_cells_after_a_failure_were_not_run():
    failed = cell(new_output("error", ename="NotRecorded", evalue="no", traceback=[]))
    stored = new_notebook(cells=[cell(), cell(), cell()])
    results = compare_cells(stored, new_notebook(cells=[cell(), failed, cell()]), 1, tools=False)
    assert [(result.status, result.detail) for result in results] == [
        ("same", ""),
        ("error", "NotRecorded: no"),
        ("not run", ""),
    ]


def test_a_stranger_is_not_shipped(tmp_path):
    assert not is_shipped(tmp_path / "none.ipynb")
    assert not is_shipped("0" * 64)
    assert examples_folder().name in ("examples", "_examples")
