"""Real kernels of several ipykernel versions. `kernel(version=None, subshells=False)` starts one, or lends a started one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, run, write_config
from page import NOTE, Page
from shell_client import ShellClient

from tests.model_server import ModelServer, tool_call

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kin_nb-tests"

OLDEST = ("6.29.5", False)
"""That we support."""
INSTALLED = (None, False)
NEWER = [("6.31.0", False), ("7.0.1", False), ("7.3.0", False), ("7.4.0", False)] + [
    (version, True) for version in ("7.0.1", "7.3.0", "7.4.0")
]
IN_PROCESS = "in-process"
THREADS = (
    "import threading; "
    "print(sorted(t.name for t in threading.enumerate() if 'process_request_thread' not in t.name))"  # ModelServer's
)
Factory = Callable[..., LiveKernel]


@pytest.fixture(scope="session")
def kernels(tmp_path_factory) -> Iterator[dict[tuple, LiveKernel]]:
    started: dict[tuple, LiveKernel] = {}
    yield started
    for live in started.values():
        live.close()


@pytest.fixture
def kernel(kernels, tmp_path_factory) -> Iterator[Factory]:
    """A kernel with `%%agent` loaded. It is lent to the next test only while it is usable: this test fails if it is not."""
    used: list[tuple] = []

    def start(version: str | None = None, *, subshells: bool = False) -> LiveKernel:
        key = (version, subshells)
        used.append(key)
        if key not in kernels:
            home = tmp_path_factory.mktemp("home")
            paths = [*([overlay(version)] if version else []), HERE.parent.parent, HERE]
            environment = {"IPYTHONDIR": str(home / "ipython"), "HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home)}
            kernels[key] = LiveKernel(paths, environment, subshells=subshells)
            kernels[key].done(kernels[key].run("%load_ext agent_cells"))
        live = kernels[key]
        live.seen.clear()
        return live

    yield start
    for key in used:
        if not kernels[key].usable():
            kernels.pop(key).close()
            pytest.fail("the kernel was not usable after this test")


def _id(key: tuple[str | None, bool] | str) -> str:
    return key if isinstance(key, str) else f"ipykernel-{key[0] or 'installed'}{'-subshell' if key[1] else ''}"


def _kernels_of(item: pytest.Function) -> list:
    """The kernels that a test with `nb` runs in, and those of them that are for `-m long` alone (see the markers)."""
    if item.get_closest_marker("one_kernel"):
        quick, long = [INSTALLED], []
    elif item.get_closest_marker("in_process"):
        quick, long = [IN_PROCESS], [INSTALLED]
    elif item.get_closest_marker("every_kernel"):
        quick, long = [OLDEST, INSTALLED], NEWER
    else:
        quick, long = [INSTALLED], [OLDEST, *NEWER]
    chosen = [pytest.param(key, id=_id(key)) for key in quick]
    return chosen + [pytest.param(key, id=_id(key), marks=pytest.mark.long) for key in long]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "nb" in metafunc.fixturenames:
        metafunc.parametrize("nb", _kernels_of(metafunc.definition), indirect=True)


@pytest.fixture
def nb(request, kernel, tmp_path_factory) -> Iterator[LiveKernel | ShellClient]:
    if request.param == IN_PROCESS:
        with closing(ShellClient(tmp_path_factory.mktemp("home"))) as client:
            yield client
        return
    version, subshells = request.param
    yield kernel(version, subshells=subshells)


def overlay(version: str) -> Path:
    """A folder for PYTHONPATH with that ipykernel, made once. Several workers may make it: the first rename wins."""
    made = CACHE / f"ipykernel-{version}"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            target = Path(fresh) / "overlay"
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target]
            done = subprocess.run([*command, f"ipykernel=={version}"], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"ipykernel {version} could not be installed: {done.stderr.strip()[-200:]}")
            try:
                target.rename(made)
            except OSError:
                if not made.exists():
                    raise
    return made


@pytest.fixture
def kin(nb: LiveKernel, model_server: ModelServer, tmp_path: Path) -> Iterator[LiveKernel]:
    """A kernel with a session of its own: its model is the server, its workspace holds a.py. It leaves no thread behind."""
    write_config(tmp_path / "kin-home", model_server)
    (tmp_path / "a.py").write_text("x = 1\n")
    run(nb, f"import os; os.chdir({str(tmp_path)!r}); os.environ['KIN_HOME'] = {str(tmp_path / 'kin-home')!r}")
    before = nb.text(run(nb, THREADS))
    run(nb, "%load_ext kin_nb")
    yield nb
    run(nb, "%unload_ext kin_nb")
    nb.quietly("import os; [os.environ.pop(name, None) for name in ('KIN_RECORD', 'KIN_APPROVAL')]")
    assert nb.text(run(nb, THREADS)) == before


@pytest.fixture
def opens(nb: LiveKernel) -> Iterator[Callable[[Path], object]]:
    """Lets the kernel be that of the notebook in a file."""
    yield lambda path: run(nb, f"import os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}")
    run(nb, "import os; os.environ.pop('JPY_SESSION_NAME', None)")


@pytest.fixture
def file_is_known(kin: LiveKernel, opens, tmp_path: Path) -> None:
    """As most front ends have it: the notebook's file is named, and there."""
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(new_notebook()))
    opens(path)


@pytest.fixture
def page(request, kin: LiveKernel, opens, model_server: ModelServer, tmp_path) -> Page:
    """One recorded turn in go.kin.ipynb, which is open and plays; one live turn after it that appended to a.py; Ctrl-S."""
    model_server.enqueue("One.")
    before = tmp_path / "go.ipynb"
    before.write_text(json.dumps(new_notebook(cells=[new_code_cell("%%kin\nSay one.")])))
    opens(before)
    run(kin, "%%kin\nSay one.")
    run(kin, f"%kin save {getattr(request, 'param', '')}")
    page = Page(kin, tmp_path / "go.kin.ipynb")
    opens(page.path)
    assert set(page.restart_and_run_all()) == {"ok"}
    model_server.enqueue("I note it.", calls=[tool_call("bash", command='echo "# note" >> a.py')])
    model_server.enqueue("Noted.")
    page.add(NOTE)
    page.save()
    return page
