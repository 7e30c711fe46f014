"""A cell of the user's fails, `%%kin @error` asks for a fix, and the session is saved: every runner gets through it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from papermill import PapermillExecutionError, execute_notebook

from kin_nb.core.records import RecordedCall, RecordedStep
from kin_nb.replay.saving.build import ends_in_error, session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.notebook.headless import shown
from tests.notebook.people import environment, kin_nb_here, run, standing_in
from tests.notebook.recorded import executed, live
from tests.unit.replay.sessions import recording, turn

pytestmark = pytest.mark.kernel

FAILING = "rows = [1]\nrows[3]"
ERROR = new_output("error", ename="IndexError", evalue="list index out of range", traceback=["IndexError: ..."])
USAGE = new_output("stream", name="stderr", text="UsageError: Line magic function `%nosuch` not found.\n")
"""IPython prints this and sends no error."""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "1.py", line 3, in <module>
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: x
    +------------------------------------
"""
PROMPT = "@error fix this"
AFTER = "print(half, len(rows))"


def cell_of_turn() -> RecordedStep:
    """The agent's Python fails too, after it has bound a variable."""
    code = '{"code": "half = 21\\n1 / 0"}'
    call = RecordedCall(id="c1", name="python", arguments=code, status="ok", output="", exit=1, bound=("half",))
    return RecordedStep(fingerprint="f", content="I look.", calls=(call,))


@pytest.fixture
def saved(tmp_path) -> Path:
    nb = new_notebook(
        cells=[
            new_code_cell(FAILING, id="failing", execution_count=1, outputs=[ERROR]),
            new_code_cell(f"%%kin\n{PROMPT}", id="ask"),
            new_code_cell("%nosuch", id="usage", execution_count=2, outputs=[USAGE]),
            new_code_cell(AFTER, id="after", execution_count=3, outputs=[new_output("stream", text="21 1\n")]),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    steps = (cell_of_turn(), RecordedStep(fingerprint="f", content="Fixed."))
    made = session_notebook(recording(turn(1, PROMPT, cell_id="ask", steps=steps)), source_nb=nb)
    return write_notebook(made, tmp_path / "out.ipynb")


def test_saving_tags_the_cell_that_failed_and_no_other(saved):
    tags = {cell["id"]: cell["metadata"].get("tags", []) for cell in nbformat.read(saved, as_version=4)["cells"]}
    assert tags["failing"] == ["kin-failed", "raises-exception"]
    assert [name for name, each in tags.items() if "raises-exception" in each] == ["failing", "usage"]


@pytest.mark.parametrize(
    ("name", "printed", "failed"),
    [
        ("stderr", (GROUP[:99], GROUP[99:]), True),
        ("stderr", ("a warning\n", USAGE["text"]), True),
        ("stderr", (GROUP, "handled\n"), False),
        ("stderr", (USAGE["text"], "handled\n"), False),
        ("stdout", (USAGE["text"],), False),
    ],
)
def test_what_ipython_only_prints_counts_where_the_cell_ends_with_it(name, printed, failed):
    cell = new_code_cell("x", outputs=[new_output("stream", name=name, text=text) for text in printed])
    assert ends_in_error(cell) == failed


def test_the_tag_goes_once_the_cell_does_not_fail(saved):
    nb = nbformat.read(saved, as_version=4)
    cell = next(cell for cell in nb["cells"] if cell["id"] == "failing")
    cell["outputs"] = [new_output("stream", text="1\n")]
    steps = (cell_of_turn(), RecordedStep(fingerprint="f", content="Fixed."))
    again = session_notebook(recording(turn(1, PROMPT, cell_id="ask", steps=steps)), source_nb=nb)
    assert next(cell for cell in again["cells"] if cell["id"] == "failing")["metadata"]["tags"] == []


def check_last_cell(path: Path) -> None:
    cells = nbformat.read(path, as_version=4)["cells"]
    last = next(cell for cell in cells if cell["id"] == "after")
    assert "".join(output.get("text", "") for output in last["outputs"]) == "21 1\n"


def test_nbclient_gets_through(saved, tmp_path):
    """Which `jupyter execute` and `jupyter nbconvert --execute` are."""
    nbformat.write(executed(saved, tmp_path / "home"), tmp_path / "ran.ipynb")
    check_last_cell(tmp_path / "ran.ipynb")


def test_kin_nb_replay_gets_through_without_drift(saved, tmp_path):
    done = kin_nb_here("replay", saved, "--output-dir", tmp_path / "ran", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    check_last_cell(tmp_path / "ran" / "out.ipynb")


def test_nbval_passes(saved, tmp_path):
    done = run("-m", "pytest", "-q", "--nbval", "-p", "no:cacheprovider", saved, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def papermill(notebook: Path, out: Path, **options: str) -> None:
    """As the program calls it."""
    with standing_in(environment(out.parent / "home"), out.parent):
        execute_notebook(notebook, out, progress_bar=False, **options)


def test_papermill_with_its_own_engine_runs_all_and_fails_for_the_users_cell_alone(saved, tmp_path):
    out = tmp_path / "ran.ipynb"
    with pytest.raises(PapermillExecutionError, match="IndexError"):
        papermill(saved, out)
    check_last_cell(out)
    nb = nbformat.read(out, as_version=4)
    failed = [
        cell["id"] for cell in nb["cells"] for output in cell.get("outputs", []) if output["output_type"] == "error"
    ]
    assert failed == ["failing"]


def test_papermill_with_the_kin_engine_passes(saved, tmp_path):
    out = tmp_path / "ran.ipynb"
    papermill(saved, out, engine_name="kin")
    check_last_cell(out)
    nb = nbformat.read(out, as_version=4)
    (failing,) = [cell for cell in nb["cells"] if cell["id"] == "failing"]
    assert "IndexError" in "".join(output["text"] for output in failing["outputs"])


def test_lived_where_the_file_is_not_known_it_is_tagged_too_and_the_notice_names_what_stops_it(tmp_path):
    def cells(kernel, server, workspace):
        kernel.run(FAILING)
        server.enqueue("The list has one item.")
        kernel.ok(f"%%kin\n{PROMPT}")
        kernel.ok("print(len(rows))")
        (workspace / "data.csv").write_text("a")
        kernel.ok("text = open('data.csv').read()")
        (workspace / "data.csv").unlink()

    lived = live(tmp_path, {}, cells)
    failing = next(cell for cell in lived.nb["cells"] if cell["source"] == FAILING)
    assert {"kin-failed", "raises-exception"} <= set(failing["metadata"]["tags"])
    notice = shown(lived.ran[-1])
    assert "A replay stops at cell 5: data.csv does not exist." in notice
    assert "Cell 2 ended in an error and may fail again" in notice
    assert "When that is fixed, anyone can run it without a key" in notice
    (lived.workspace / "data.csv").write_text("a")
    done = kin_nb_here("replay", lived.notebook, "--output-dir", tmp_path / "ran", home=tmp_path / "mate", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
