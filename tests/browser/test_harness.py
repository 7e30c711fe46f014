"""The page object itself, without kin_nb. When tests of %%kin fail, these tell whether the page object works."""

from __future__ import annotations

import pytest

from browser.lab import Lab

# continuous_update=False: ipywidgets holds a key back while the last one is unanswered, and a quick click overtakes it.
BUTTON = """
import ipywidgets
from IPython.display import display
note, seen = ipywidgets.Text(continuous_update=False), ipywidgets.Label("untouched")
button = ipywidgets.Button(description="Press me")
button.on_click(lambda _: setattr(seen, "value", f"pressed: {note.value}"))
display(ipywidgets.VBox([note, button, seen]))
"""
pytestmark = pytest.mark.long
SLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(60)"


def test_a_cell_shows_its_value_and_it_is_saved(lab: Lab) -> None:
    lab.open(lab.set_cells(["1+1"]))
    lab.run_cell(0)
    lab.wait_idle()
    assert lab.output_text(0) == "2"
    lab.save()
    assert lab.saved()["cells"][0]["outputs"][0]["data"]["text/plain"] == "2"


def test_a_button_and_a_text_field_reach_the_kernel(lab: Lab) -> None:
    lab.open(lab.set_cells([BUTTON]))
    lab.run_cell(0)
    lab.type_note("every single key", 0)
    lab.click_button("Press me", 0)
    lab.wait_output(0, "pressed: every single key")


def test_interrupt_ends_a_sleeping_cell_and_the_next_one_runs(lab: Lab) -> None:
    lab.open(lab.set_cells([SLEEP, "'alive'"]))
    lab.run_cell(0)
    lab.wait_output(0, "asleep")
    assert lab.prompt(0) == "[*]:"
    lab.interrupt()
    lab.wait_idle(timeout=60)
    assert "KeyboardInterrupt" in lab.output_text(0)
    lab.run_cell(1)
    lab.wait_idle()
    assert lab.output_text(1) == "'alive'"


def test_run_all_runs_in_order_and_each_output_stays_in_its_cell(lab: Lab) -> None:
    lab.open(lab.set_cells(["order = []", *(f"order.append({n}); order" for n in range(3))]))
    lab.run_all()
    lab.wait_idle()
    assert [lab.output_text(n) for n in range(1, 4)] == ["[0]", "[0, 1]", "[0, 1, 2]"]


def test_a_reloaded_page_finds_the_running_kernel(lab: Lab) -> None:
    lab.open(lab.set_cells([SLEEP, "'the same kernel', time.__name__"]))
    lab.run_cell(0)
    lab.wait_output(0, "asleep")
    lab.reload()
    lab.interrupt()
    lab.run_cell(1)
    lab.wait_idle(timeout=60)
    assert lab.output_text(1) == "('the same kernel', 'time')"
