"""The offer to continue the last session: in the cell that someone reads, once, and never in a replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from nbformat.v4 import new_notebook
from notebook_client import LiveKernel, run, shown, write_config
from shell_client import ShellClient

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from tests.model_server import ModelServer

pytestmark = pytest.mark.kernel

OFFER = "Last session here: a moment ago, 1 turn. To continue it: %kin resume\n"


@pytest.fixture
async def session(model_server: ModelServer, tmp_path: Path, monkeypatch) -> None:
    """One turn in this folder, a moment ago."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "kin-home"))
    write_config(tmp_path / "kin-home", model_server)
    agent = Agent(KinConfig.load(workdir=tmp_path))
    model_server.enqueue("Hello.")
    async for _ in agent.act("Hi."):
        pass
    await agent.aclose()


@pytest.fixture
def started(request, session, tmp_path: Path) -> Iterator[LiveKernel]:
    """A fresh kernel in that folder, or a shell of this process."""
    environment = {"KIN_HOME": str(tmp_path / "kin-home"), "IPYTHONDIR": str(tmp_path / "ipython")}
    if request.param == "in process":
        with closing(ShellClient(tmp_path, **environment)) as client:
            yield client
        return
    live = LiveKernel([Path(__file__).parents[2]], environment, subshells=False, module=request.param, cwd=tmp_path)
    yield live
    live.close()


ordinary = pytest.mark.parametrize("started", ["in process"], indirect=True)
kin = pytest.mark.parametrize("started", ["kin_nb.notebook.kernel"], indirect=True)


@ordinary
def test_load_ext_offers_the_session_before_and_resume_continues_with_it(started, model_server):
    assert started.text(run(started, "%load_ext kin_nb")) == OFFER
    assert "Continued session " in shown(started, run(started, "%kin resume"))
    model_server.enqueue("Hello again.")
    run(started, "%%kin\nAnd now?")
    *before, asked = [message["content"] for message in model_server.requests[-1]["messages"][1:]]
    assert (before, asked.split("\n")[0]) == (["Hi.", "Hello."], "And now?")


@ordinary
@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("%load_ext kin_nb", {"cell": None, "allow_stdin": False}),
        ("%load_ext kin_nb\n%kin resume", {}),
        ("%load_ext kin_nb\n%kin replay 0123@0123456789ab", {}),
    ],
)
def test_nothing_is_offered_to_no_one_or_in_a_cell_that_continues_by_itself(started, code, how):
    cell = started.run(code, **how)
    started.done(cell)
    assert started.text(cell) == ""


@ordinary
def test_a_notebook_whose_paired_text_would_lose_prompts_is_warned(started, tmp_path):
    path = tmp_path / "own.ipynb"
    run(started, f"import os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}")
    for formats, says in (("ipynb,py:percent", []), ("ipynb,py:nomarker", ["py:nomarker"])):
        path.write_text(json.dumps(new_notebook(metadata={"jupytext": {"formats": formats}})))
        told = started.text(run(started, "%load_ext kin_nb")).splitlines()[1:]
        assert [f"pairs this notebook with {name}:" in line for name, line in zip(says, told, strict=True)] == [
            True
        ] * len(says)
        run(started, "%unload_ext kin_nb")


@ordinary
def test_a_console_is_offered_it_too(started):
    cell = started.run("%load_ext kin_nb", cell=None)
    started.done(cell)
    assert started.text(cell) == OFFER


@kin
def test_the_kin_kernel_offers_it_above_its_first_answer(started, model_server):
    assert started.text(run(started, "%%python\nx = 1")) == ""
    assert started.text(run(started, "/mode")) == OFFER
    model_server.enqueue("Hello again.")
    assert started.text(run(started, "Hi again.")) == ""


@kin
def test_the_kin_kernel_offers_nothing_in_playback(started):
    started.done(started.run("%kin replay 0123@0123456789ab"))
    assert started.text(run(started, "/mode")) == ""


@kin
def test_the_kin_kernel_can_be_asked_to_resume_at_once(started):
    cell = run(started, "/resume")
    assert started.text(cell) == ""
    assert "Continued session " in shown(started, cell)
