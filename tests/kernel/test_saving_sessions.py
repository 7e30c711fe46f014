"""A notebook in which several sessions ran: `%kin save` and `kin-nb save` make the same of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, kept_outputs, run, shown

from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

LOAD = "%load_ext kin_nb"
RESTART = "%reload_ext kin_nb"
"""As far as sessions go; the kernel stays."""


@pytest.fixture
def kin(kin: LiveKernel, opens, tmp_path) -> LiveKernel:
    """It knows its notebook."""
    opens(tmp_path / "mine.ipynb")
    return kin


def live(kin: LiveKernel, path: Path, *sources: str) -> None:
    """Run the cells, and write the notebook as its front end does. RESTART is no cell of it."""
    cells = []
    for n, source in enumerate(sources, 1):
        ran = kin.run(source, cell=f"c{n}")
        assert kin.done(ran)["content"]["status"] == "ok"
        if source != RESTART:
            cells.append(new_code_cell(source, id=f"c{n}", outputs=kept_outputs(kin, ran), execution_count=n))
    path.write_text(json.dumps(new_notebook(cells=cells)))


def prompts(path: Path) -> list[str]:
    return [turn.prompt for turn in read_recording(load_notebook(path)).turns]


def check_either_way(kin: LiveKernel, path: Path, *asked: str) -> None:
    """`%kin save` and `kin-nb save` make the same of a notebook, but for what the one kernel has beyond the file."""
    run(kin, "%kin save typed.ipynb")
    SaveCommand(str(path), path.with_name("taken.ipynb")).run()
    assert load_notebook(path.with_name("taken.ipynb")) == load_notebook(path.with_name("typed.ipynb"))
    assert prompts(path.with_name("taken.ipynb")) == list(asked)


def test_both_sessions_of_a_notebook_whose_kernel_was_restarted_are_saved(kin, model_server, tmp_path):
    for text in ("One.", "Two.", "Three."):
        model_server.enqueue(text)
    path = tmp_path / "mine.ipynb"
    asked = ("%%kin\none", RESTART, LOAD, "%kin mode plan", "%%kin\ntwo", "y = 1", "%%kin\nthree", "%kin undo 1")
    live(kin, path, *asked)
    check_either_way(kin, path, "one", "two", "three")


def test_a_session_with_a_name_is_saved_with_the_others(kin, model_server, tmp_path):
    for text in ("One.", "Two.", "Three."):
        model_server.enqueue(text)
    path = tmp_path / "mine.ipynb"
    live(kin, path, LOAD, "%%kin\none", "%%kin --session review\ntwo", "y = 1", "%%kin\nthree")
    check_either_way(kin, path, "one", "two", "three")
    assert set(read_recording(load_notebook(tmp_path / "typed.ipynb")).session_names.values()) == {"review"}


def test_a_session_that_was_resumed_after_a_restart_is_one_session(kin, model_server, tmp_path):
    for text in ("One.", "Two."):
        model_server.enqueue(text)
    path = tmp_path / "mine.ipynb"
    live(kin, path, LOAD, "%%kin\none", RESTART, "%kin resume", "%%kin\ntwo")
    check_either_way(kin, path, "one", "two")


def test_prompts_without_an_answer_are_left_out_and_said(kin, model_server, tmp_path):
    model_server.enqueue("One.")
    path = tmp_path / "mine.ipynb"
    live(kin, path, LOAD, "%%kin\none")
    nb = json.loads(path.read_text())
    nb["cells"].append(new_code_cell("%%kin\nNever run.", id="never"))
    path.write_text(json.dumps(nb))
    assert "Left out: 1 prompt without a recorded answer" in shown(kin, run(kin, "%kin save"))
    assert prompts(tmp_path / "mine.kin.ipynb") == ["one"]
