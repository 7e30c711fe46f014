"""What the agent bound, in a notebook that only its front end saved, where no user can answer: its code does not run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import LOAD, Headless, error_of, shown
from tests.notebook.people import kin_nb_here, run
from tests.notebook.recorded import Lived, acting, data_of, living

pytestmark = pytest.mark.kernel

BINDS = "from pathlib import Path\nwith Path('ran.txt').open('a') as file: _ = file.write('ran')\nwhole = 2"
MISSING = "Missing variables: `whole`. The Python code of this answer did not run again\n"


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Iterator[Lived]:
    """`plain.ipynb` is the page as its front end would save it."""
    with living(tmp_path_factory.mktemp("unsaved"), {}, _cells) as lived:
        cells = [cell for cell in lived.ran if "%kin save" not in cell["source"]]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), lived.workspace / "plain.ipynb")
        yield lived


def _cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    for session, answer in (("", "One."), (" --session other", "Beside.")):
        server.enqueue(answer)
        kernel.ok(f"%%kin{session}\nFirst.")
    server.enqueue("I bind it.", calls=[tool_call("python", code=BINDS)])
    server.enqueue("Bound.")
    kernel.ok("%%kin --mode auto-approve\nBind whole.")
    assert shown(kernel.ok("print(whole)")) == "2\n"


@pytest.fixture(autouse=True)
def nothing_runs(lived) -> Iterator[None]:
    """Nor is a model asked."""
    requests = len(lived.requests)
    (lived.workspace / "ran.txt").unlink(missing_ok=True)
    yield
    assert not (lived.workspace / "ran.txt").exists()
    assert len(lived.requests) == requests


def prompts_of(path: Path) -> list[Any]:
    return acting(nbformat.read(path, as_version=4)["cells"])


def prompt_of(path: Path) -> str:
    """What the prompt shows whose answer binds."""
    return shown(prompts_of(path)[-1])


def command(runner: str, path: Path, out: Path) -> list[str | Path]:
    if runner == "papermill":
        return ["-m", "papermill", "-k", "python3", path, out]
    return [Path(sys.executable).with_name("jupyter-execute"), path, "--allow-errors", "--output", out]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="a kernel reads its runner's command there")
@pytest.mark.parametrize("runner", ["jupyter execute", "papermill"])
def test_in_runners_that_name_no_file_it_plays_a_notice_names_the_variables_and_the_cell_below_fails(
    lived, tmp_path, runner
):
    """Without a key, in an empty home: a model could not be asked."""
    plain, out = lived.workspace / "plain.ipynb", tmp_path / "out.ipynb"
    done = run(*command(runner, plain, out), home=tmp_path / "home", cwd=tmp_path)
    assert (done.returncode != 0) == (runner == "papermill"), done.stderr
    *played, binds = map(data_of, prompts_of(out))
    assert [*played, binds[:-1]] == list(map(data_of, prompts_of(plain)))
    assert MISSING in prompt_of(out)
    assert "kin-nb save NOTEBOOK.ipynb" in prompt_of(out)
    assert error_of(nbformat.read(out, as_version=4)["cells"][-1])["evalue"] == "name 'whole' is not defined"


@pytest.mark.long
def test_nbval_runs_none_of_it(lived, tmp_path):
    options = ["-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
    done = run(*options, lived.workspace / "plain.ipynb", home=tmp_path / "home", cwd=lived.workspace)
    assert done.returncode == 1
    assert "Missing variables: <code>whole</code>. The Python code of this answer did not run again" in done.stdout


def test_the_outputs_of_the_turn_are_as_they_were(lived):
    own = {"JPY_SESSION_NAME": str(lived.workspace / "plain.ipynb")}
    with Headless.start(lived.workspace, {**lived.environment, **own}) as kernel:
        kernel.ok(LOAD)
        kernel.ok("%kin mode auto-approve")
        played = kernel.ok("%%kin --mode auto-approve\nBind whole.")
    before = lived.cells[-1]
    assert data_of(played)[:-1] == data_of(before)
    assert (
        shown(played).rpartition("\n")[2] == "  To make a notebook whose cells assign them: `kin-nb save plain.ipynb`"
    )


def test_the_advice_of_the_notice_helps(lived, tmp_path):
    """The notebook that the command writes binds the variables in a cell that everyone sees."""
    plain = tmp_path / "plain.ipynb"
    plain.write_bytes((lived.workspace / "plain.ipynb").read_bytes())
    done = kin_nb_here("save", "plain.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    played = kin_nb_here(
        "replay", "--output-dir", tmp_path / "out", "plain.kin.ipynb", home=tmp_path / "home", cwd=tmp_path
    )
    assert (played.returncode, played.stderr) == (0, ""), played.stdout
    assert "Missing" not in prompt_of(tmp_path / "out" / "plain.kin.ipynb")


def test_replay_does_not_run_it_where_the_cell_that_binds_was_deleted(lived, tmp_path):
    nb = lived.nb
    nb["cells"] = [cell for cell in nb["cells"] if not cell["source"].startswith("# What the agent ran here")]
    nbformat.write(nb, tmp_path / "less.kin.ipynb")
    out = tmp_path / "out"
    done = kin_nb_here("replay", "--output-dir", out, "less.kin.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 1
    assert MISSING in prompt_of(out / "less.kin.ipynb")
    assert not (tmp_path / "ran.txt").exists()
    saved = kin_nb_here("save", "less.kin.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr
    played = kin_nb_here("replay", "--output-dir", out, "less.kin.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert played.returncode == 0, played.stdout
