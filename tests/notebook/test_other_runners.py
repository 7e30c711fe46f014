"""`jupyter execute`, papermill, nbclient and pytest-notebook: a session notebook comes out of each as it was saved."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest

from kin_nb.replay.format.notebook_codec import raw_records
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.people import QUICKSTART, run
from tests.notebook.recorded import executed, stripped

pytestmark = pytest.mark.kernel


@pytest.fixture
def stored(tmp_path):
    """(the quickstart stripped of its outputs, in a folder where nothing else is; the notebook as it was saved)."""
    path = tmp_path / "shared" / "quickstart.ipynb"
    path.parent.mkdir()
    nb = nbformat.read(QUICKSTART, as_version=4)
    nbformat.write(stripped(nb), path)
    before = path.read_bytes()
    yield path, nb
    assert path.read_bytes() == before


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_jupyter_execute_from_another_directory(stored, elsewhere, tmp_path):
    path, nb = stored
    script = Path(sys.executable).with_name("jupyter-execute")
    done = run(script, path, "--output", elsewhere / "out.ipynb", home=tmp_path / "home", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert_same_notebook(nbformat.read(elsewhere / "out.ipynb", as_version=4), nb)


@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="papermill names its input to its kernel nowhere else"
)
def test_papermill_with_another_working_directory_and_output_elsewhere(stored, elsewhere, tmp_path):
    path, nb = stored
    out = tmp_path / "out.ipynb"
    done = run("-m", "papermill", path, out, home=tmp_path / "home", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert_same_notebook(nbformat.read(out, as_version=4), nb)


def test_nbclient_in_process(stored, tmp_path):
    path, nb = stored
    assert_same_notebook(executed(path, tmp_path / "home"), nb)


@pytest.mark.parametrize("changed", [False, True])
def test_pytest_notebook_passes_and_names_a_reply_that_was_changed(changed, tmp_path):
    nb = nbformat.read(QUICKSTART, as_version=4)
    if changed:
        turn = next(record for _, record in raw_records(nb) if "steps" in record)
        turn["steps"][-1]["content"] += " And more."
    path = tmp_path / "quickstart.ipynb"
    nbformat.write(nb, path)
    plugins = ("-p", "no:nbval", "-p", "no:asyncio", "-W", "ignore")
    done = run("-m", "pytest", "-q", *plugins, "--nb-test-files", path, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == changed, done.stdout + done.stderr
    assert ("was changed after it was recorded" in done.stdout) == changed
