"""`jupyter execute`, papermill and pytest-notebook: a session notebook comes out of each as it was saved."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
import pytest

from kin_nb.replay.format.notebook_codec import raw_records
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.people import QUICKSTART, run
from tests.notebook.recorded import stripped

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


def test_pytest_notebook_passes_and_names_a_reply_that_was_changed(tmp_path):
    nb = nbformat.read(QUICKSTART, as_version=4)
    nbformat.write(nb, tmp_path / "quickstart.ipynb")
    turn = next(record for _, record in raw_records(nb) if "steps" in record)
    turn["steps"][-1]["content"] += " And more."
    nbformat.write(nb, tmp_path / "changed.ipynb")
    options = ("-p", "no:nbval", "-p", "no:asyncio", "-W", "ignore", "-rA", "--nb-test-files")
    done = run("-m", "pytest", "-q", *options, tmp_path, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    results = re.findall(r"^(PASSED|FAILED) (\w+)\.ipynb", done.stdout, re.MULTILINE)
    assert sorted(results) == [("FAILED", "changed"), ("PASSED", "quickstart")], done.stdout
    assert "was changed after it was recorded" in done.stdout
