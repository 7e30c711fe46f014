"""The state of widgets in a saved notebook: the person's stays with their views, that of our buttons goes."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_notebook
from tests.unit.replay.sessions import recording, turn

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def session() -> Recording:
    return recording(turn(1, "go"))


@pytest.fixture(scope="module")
def widgets() -> dict[str, Any]:
    """A slider and a number that follow each other in a box, beside buttons like ours: all that ipywidgets says of them."""
    import ipywidgets

    slider, number = ipywidgets.IntSlider(description=KEY), ipywidgets.IntText()
    choice = ipywidgets.Dropdown(options=["one", KEY])
    link = ipywidgets.jslink((slider, "value"), (number, "value"))
    box = ipywidgets.VBox([slider, choice])
    ours = ipywidgets.HBox([ipywidgets.Button(description="Approve")])
    state = ipywidgets.Widget.get_manager_state()
    return {"box": box.model_id, "number": number.model_id, "link": link.model_id, "ours": ours.model_id, **state}


def notebook(widgets: dict[str, Any], held: Any, shown: str) -> Any:
    """As a front end saves it: an ordinary cell shows the widget `shown`, the prompt's our buttons."""

    def view(model: str) -> Any:
        return new_output("display_data", {VIEW: {"model_id": model, "version_major": 2, "version_minor": 0}})

    cells = [new_code_cell("%%kin\ngo", outputs=[view(widgets["ours"])]), new_code_cell("w", outputs=[view(shown)])]
    return new_notebook(metadata={"widgets": {STATE: held}}, cells=cells)


@pytest.mark.parametrize("colab", [False, True])
def test_what_a_cell_shows_keeps_its_state_and_our_buttons_lose_theirs(session, widgets, colab):
    models = json.loads(json.dumps(widgets["state"]))
    held = models if colab else {"state": models, "version_major": 2, "version_minor": 0}
    nb = notebook(widgets, held, widgets["box"])
    saved = session_notebook(session, source_nb=nb)
    nbformat.validate(saved)
    left = saved["metadata"]["widgets"][STATE]
    left = left if colab else left["state"]
    names = {model["model_name"] for model in left.values()}
    assert names >= {"VBoxModel", "IntSliderModel", "SliderStyleModel", "LayoutModel", "DropdownModel"}
    assert {widgets["link"], widgets["number"]} <= left.keys(), "what follows it refers to it"
    assert not names & {"ButtonModel", "HBoxModel", "ButtonStyleModel"}
    assert all(model == models[name] for name, model in left.items())


def test_without_a_view_nothing_is_left(session, widgets):
    nb = notebook(widgets, {"state": widgets["state"]}, "gone")
    assert "widgets" not in session_notebook(session, source_nb=nb)["metadata"]


@pytest.mark.parametrize("held", [5, {}, {"state": []}, {"state": {"a": 5, "b": {"state": {"children": None}}}}, []])
def test_odd_state_is_no_error(session, widgets, held):
    nb = notebook(widgets, held, "gone")
    assert session_notebook(session, source_nb=nb)["cells"][-1]["outputs"]


def test_secrets_go_out_of_what_widgets_show(session, widgets):
    nb = notebook(widgets, {"state": json.loads(json.dumps(widgets["state"]))}, widgets["box"])
    cleaner = NotebookRedactor(secrets=lambda text: text.replace(KEY, "[secret]"))
    saved = session_notebook(clean_notebook(nb, session, cleaner), source_nb=nb)
    assert KEY not in json.dumps(saved)
    assert "[secret]" in json.dumps(saved["metadata"]["widgets"])
    assert cleaner.report()[0] == "Redacted:"
    assert cleaner.report()[1].startswith("  widgets: ")
    kept = saved["metadata"]["widgets"][STATE]["state"]
    assert {name: model["model_name"] for name, model in kept.items()}.items() <= {
        name: model["model_name"] for name, model in widgets["state"].items()
    }.items()


def test_only_what_ipywidgets_names_stays_in_the_state():
    theirs = {"_model_name": "HTMLModel", "_view_module_version": "2.0.0", "layout": f"IPY_MODEL_{'0a' * 16}"}
    buffers = [{"data": "QUNN", "encoding": "base64", "path": ["value"]}]
    mine = {"model_x": KEY, "_model_name": f"of {KEY}", "tooltip": f"IPY_MODEL_{KEY}", "buffers": KEY}
    cleaner = NotebookRedactor(secrets=lambda text: text.replace(KEY, "[secret]"))
    assert cleaner.widgets({**theirs, "buffers": buffers}, "") == {**theirs, "buffers": buffers}
    assert KEY not in json.dumps(cleaner.widgets(mine, ""))
