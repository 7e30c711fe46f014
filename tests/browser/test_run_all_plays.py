"""Run All in a session notebook: what is recorded plays, and a new prompt among it asks nobody until it runs by itself."""

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell

from browser.lab import Lab
from kin_nb.notebook.queued import PAUSE
from kin_nb.replay.saving.making import session_notebook
from tests.model_server import ModelServer
from tests.unit.replay.sessions import recording, turn

TURNS = 40


def test_a_new_prompt_is_asked_when_it_is_run_by_itself(lab: Lab, kin_home, model_server: ModelServer, pictures):
    (kin_home / "config.toml").write_text(model_server.config_toml())
    nb = session_notebook(recording(*(turn(n, f"Say {n}.") for n in range(1, TURNS + 1))))
    nb["cells"] += [new_code_cell("%%kin\nSay more."), new_code_cell("print('below')")]
    nbformat.write(nb, lab.workspace / "told.ipynb")
    lab.open("told.ipynb")
    lab.run_all()
    lab.wait_idle()
    assert "so no model was asked. To ask: run this cell by itself" in lab.output_text(TURNS + 1)
    assert lab.output_text(TURNS + 2) == ""
    lab.screenshot(pictures / f"run-all-{lab.front_end}.png")
    assert model_server.requests == []
    model_server.enqueue("Here is more.")
    for _ in range(5):
        lab.page.wait_for_timeout(
            5_000 * PAUSE
        )  # as a person, who is no faster: a cell that follows at once is one of Run All's
        lab.run_cell(TURNS + 1)
        lab.wait_idle()
        if model_server.requests:
            break
    lab.wait_output(TURNS + 1, "Here is more.")
    assert len(model_server.requests) == 1
