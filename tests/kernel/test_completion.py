"""Tab in cells that speak to the agent."""

from __future__ import annotations

import pytest
from notebook_client import LiveKernel, run

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]


def completed(nb: LiveKernel, code: str) -> list[str]:
    """The whole cell after each completion of what stands before the cursor, which is `|`."""
    before, _, after = code.partition("|")
    reply = nb.ask("complete_request", {"code": before + after, "cursor_pos": len(before)})["content"]
    start, end = reply["cursor_start"], reply["cursor_end"]
    return [(before + after)[:start] + text + (before + after)[end:] for text in reply["matches"]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("%%kin --no|", ["%%kin --no-tools"]),
        ("%%kin --mode ac|", ["%%kin --mode accept-edits"]),
        ("%kin und|", ["%kin undo"]),
        ("%kin mode pl|", ["%kin mode plan"]),
        ("%%kin\n/und|", ["%%kin\n/undo"]),
        ("%%kin\nLook at @tabl|", ["%%kin\nLook at @table"]),
        ("%%kin\nLook at @a.p|", ["%%kin\nLook at @a.py"]),
        ("%%kin\nCompare @tabl| with that", ["%%kin\nCompare @table with that"]),
        ("%%kin\nplain prose, pri|", ["%%kin\nplain prose, pri"]),
        ("%%kin\nprose, tab| and so on", ["%%kin\nprose, tab and so on"]),
        ("%%kin\nprose, |", ["%%kin\nprose, "]),
        ("%%kin\nwrite to me@exam|", ["%%kin\nwrite to me@exam"]),
    ],
)
def test_tab_knows_what_may_stand_there(kin, code, expected):
    run(kin, "table = [1]")
    assert completed(kin, code) == expected


def test_tab_knows_the_models(kin):
    assert "%%kin --model m" in completed(kin, "%%kin --model |")


def test_python_cells_are_completed_as_ever(kin):
    run(kin, "%config Completer.use_jedi = False\ntable = [1]")  # it reads for seconds first
    assert "table" in completed(kin, "tabl|")


def test_nothing_is_left_when_the_extension_is_unloaded(kin):
    run(kin, "%unload_ext kin_nb")
    assert completed(kin, "%kin und|") == []
    run(kin, "%load_ext kin_nb")
    assert completed(kin, "%kin und|") == ["%kin undo"]
