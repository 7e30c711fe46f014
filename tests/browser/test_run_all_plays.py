"""Run All in a session notebook: what is recorded plays, and a new prompt among it asks the person before a model is asked."""

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell

from browser.conftest import LAB_FIRST
from browser.lab import Lab
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from kin_nb.replay.saving.build import session_notebook
from tests.model_server import ModelServer
from tests.unit.replay.sessions import recording, turn

TURNS = 40


@LAB_FIRST
def test_a_new_prompt_asks_the_person_before_the_model_is_asked(
    lab: Lab, kin_home, model_server: ModelServer, pictures
):
    (kin_home / "config.toml").write_text(model_server.config_toml())
    nb = session_notebook(recording(*(turn(n, f"Say {n}.") for n in range(1, TURNS + 1))))
    nb["cells"] += [new_code_cell("%%kin\nSay more."), new_code_cell("print('below')")]
    nbformat.write(nb, lab.workspace / "told.ipynb")
    lab.open("told.ipynb")
    lab.run_all()
    lab.button("Ask the model", TURNS + 1).wait_for()
    lab.screenshot(pictures / f"run-all-{lab.front_end}.png", TURNS + 1)
    assert lab.output_text(TURNS + 2) == ""
    assert model_server.requests == []
    model_server.enqueue("Here is more.")
    lab.click_button("Ask the model", TURNS + 1)
    lab.wait_output(TURNS + 1, "Here is more.")
    lab.wait_output(TURNS + 2, "below")
    assert len(model_server.requests) == 1


def test_a_notebook_that_only_the_front_end_saved_plays_after_a_restart(lab: Lab, kin_home, model_server, pictures):
    (kin_home / "config.toml").write_text(model_server.config_toml())
    for text in ("One.", "Two."):
        model_server.enqueue(text)
    name = lab.set_cells(["%load_ext kin_nb", "%%kin\nSay one.", "%%kin\nSay two."])
    lab.open(name)
    lab.run_all()
    lab.wait_output(2, "Two.")
    lab.wait_idle()
    lab.save()
    text = (lab.workspace / name).read_text()
    (lab.workspace / "copy.ipynb").write_text(text)
    lab.open("copy.ipynb")
    lab.run_all()
    lab.wait_output(1, "Saved answers are shown")
    lab.wait_output(2, "Two.")
    lab.wait_idle()
    lab.screenshot(pictures / f"front-end-only-{lab.front_end}.png")
    assert len(model_server.requests) == 2
    lab.save()
    played = (lab.workspace / "copy.ipynb").read_text()
    assert (BACKUP_KEY in played, played.count(f'"{RECORD_KEY}"')) == (False, 2), (
        "the copy went when all cells carried theirs again"
    )
    assert len(played) < len(text) + 4_000, "the two notices on the page"
