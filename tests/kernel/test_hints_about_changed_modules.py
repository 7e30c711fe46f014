"""In a real kernel: the cell says when the kernel goes on with code that the turn has changed; code of the model's ends in time."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebook_client import LiveKernel, run, shown

from tests.model_server import tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.every_kernel]

HINT = "a.py changed, and this kernel has imported it: %load_ext autoreload / %autoreload 2, or importlib.reload(a)"
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 22")


@pytest.fixture
def importing(kin: LiveKernel, tmp_path: Path):
    """A kernel in which the person has imported a.py; forgotten afterwards, for the kernel is the next test's too."""
    run(kin, f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import a")
    yield kin
    run(kin, f"sys.path.remove({str(tmp_path)!r}); sys.modules.pop('a', None); del a")


def test_the_cell_that_changed_an_imported_module_says_so_and_so_does_its_undo(importing, model_server):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    assert f"warning: {HINT}" in shown(importing, run(importing, "%%kin --mode auto-approve\nMake x 22."))
    assert f"warning: {HINT}" in shown(importing, run(importing, "%kin undo"))


def test_code_whose_time_is_up_is_stopped_and_the_turn_continues(kin, model_server):
    code = (
        "import time\ncaught = []\nwhile len(caught) < 2:\n    try:\n        time.sleep(60)\n"
        "    except KeyboardInterrupt as error:\n        caught.append(str(error))"
    )
    model_server.enqueue(calls=[tool_call("python", code=code, timeout=1)])
    model_server.enqueue("It takes too long.")
    cell = run(kin, "%%kin --mode auto-approve\nGo.")
    assert "It takes too long." in shown(kin, cell)
    assert "[its timeout was up: it was interrupted]" in model_server.requests[1]["messages"][-1]["content"]
    assert kin.text(run(kin, "print(caught)")) == "['its timeout of 1 s was up', 'its timeout of 1 s was up']\n"


def test_code_whose_time_is_up_is_stopped_by_an_exception_that_says_so(kin, model_server):
    model_server.enqueue(calls=[tool_call("python", code="import time\ntime.sleep(60)", timeout=1)])
    model_server.enqueue("It takes too long.")
    assert "It takes too long." in shown(kin, run(kin, "%%kin --mode auto-approve\nGo."))
    assert "KeyboardInterrupt: its timeout of 1 s was up" in model_server.requests[1]["messages"][-1]["content"]
