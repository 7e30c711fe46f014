"""A notebook in which several sessions ran: `%kin save` and `kin-nb save --from-outputs` make the same of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, kept_outputs, run, shown

from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

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


def test_after_a_restart_the_second_session_comes_out_the_same_either_way(kin, model_server, tmp_path):
    for text in ("One.", "Two.", "Three."):
        model_server.enqueue(text)
    path = tmp_path / "mine.ipynb"
    asked = ("%%kin\none", RESTART, LOAD, "%kin mode plan", "%%kin\ntwo", "y = 1", "%%kin\nthree", "%kin undo 1")
    live(kin, path, *asked)
    run(kin, "%kin save typed.ipynb")
    session = read_recording(load_notebook(tmp_path / "typed.ipynb")).session
    SaveCommand(str(path), tmp_path / "taken.ipynb", from_outputs=True, session=session).run()
    assert load_notebook(tmp_path / "taken.ipynb") == load_notebook(tmp_path / "typed.ipynb")
    assert prompts(tmp_path / "taken.ipynb") == ["two", "three"]


def test_a_session_with_a_name_comes_out_the_same_either_way(kin, model_server, tmp_path):
    for text in ("One.", "Two.", "Three."):
        model_server.enqueue(text)
    path = tmp_path / "mine.ipynb"
    live(kin, path, LOAD, "%%kin\none", "%%kin --session review\ntwo", "y = 1", "%%kin\nthree")
    for command, name in (("%kin save", "mine.kin.ipynb"), ("%kin --session review save", "mine.review.kin.ipynb")):
        run(kin, command)
        session = read_recording(load_notebook(tmp_path / name)).session
        taken = tmp_path / f"taken.{name}"
        SaveCommand(str(path), taken, from_outputs=True, session=session).run()
        assert load_notebook(taken) == load_notebook(tmp_path / name)
    assert prompts(tmp_path / "mine.review.kin.ipynb") == ["two"]


def test_a_session_that_was_resumed_after_a_restart_is_one_session(kin, model_server, tmp_path):
    for text in ("One.", "Two."):
        model_server.enqueue(text)
    path = tmp_path / "mine.ipynb"
    live(kin, path, LOAD, "%%kin\none", RESTART, "%kin resume", "%%kin\ntwo")
    run(kin, "%kin save")
    SaveCommand(str(path), tmp_path / "taken.ipynb", from_outputs=True).run()
    assert load_notebook(tmp_path / "taken.ipynb") == load_notebook(tmp_path / "mine.kin.ipynb")
    assert prompts(tmp_path / "taken.ipynb") == ["one", "two"]


def test_prompts_of_the_session_before_a_restart_are_left_out_and_said(kin, model_server, tmp_path):
    for text in ("One.", "Two."):
        model_server.enqueue(text)
    live(kin, tmp_path / "mine.ipynb", LOAD, "%%kin\none", RESTART, "%%kin\ntwo")
    said = shown(kin, run(kin, "%kin save"))
    assert "Left out: 1 prompt" in said
    assert prompts(tmp_path / "mine.kin.ipynb") == ["two"]
