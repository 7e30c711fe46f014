"""The still pictures of the documentation: an approval, an undo, a session notebook run again, and the Kin kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from browser.film import WIDTH, set_stage
from browser.lab import Lab
from tests.model_server import ModelServer, tool_call

pytestmark = [pytest.mark.long, pytest.mark.parametrize("front_end", ["lab"], indirect=True)]

STATS = '''"""Figures of a list of sales."""


def mean(values):
    return sum(values) / len(values)
'''
OLD, NEW = "    return sum(values) / len(values)\n", "    return sum(values) / len(values) if values else 0.0\n"
SALES = """%%python
import pandas as pd

sales = pd.DataFrame({"city": ["Bern", "Basel", "Bern"], "total": [310.5, 402.0, 512.25]})"""
TOTALS = 'sales.groupby("city")["total"].sum()'
ANSWER = """**Bern** sells most.

| city | total |
|---|---:|
| Bern | 822.75 |
| Basel | 402.00 |
"""


def take(lab: Lab, file: Path, first: int, last: int) -> None:
    """Take one picture of the cells from `first` to `last`."""
    lab.page.mouse.move(1, 1)
    top, bottom = lab.cell(first).bounding_box(), lab.cell(last).bounding_box()
    assert top
    assert bottom
    height = bottom["y"] + bottom["height"] - top["y"]
    lab.page.screenshot(path=file, clip={"x": top["x"], "y": top["y"], "width": top["width"], "height": height})
    assert file.stat().st_size < 150_000
    with Image.open(file) as picture:
        assert WIDTH * 0.9 < picture.width <= WIDTH


def test_an_approval_an_undo_and_the_saved_session_run_again(
    lab: Lab, kin_home: Path, model_server: ModelServer, pictures: Path
) -> None:
    (kin_home / "config.toml").write_text(model_server.config_toml())
    (lab.workspace / "stats.py").write_text(STATS)
    edit = tool_call("edit_file", path="stats.py", old_string=OLD, new_string=NEW)
    model_server.enqueue("`mean` divides by zero when the list is empty.", calls=[edit])
    model_server.enqueue("Done: `mean` returns 0.0 for an empty list.")
    prompt = "%%kin\nMake mean in stats.py accept an empty list."
    lab.open(lab.set_cells(["%load_ext kin_nb", prompt, "%kin undo", "%kin redo", "%kin save report"]))
    set_stage(lab, 1400)
    lab.run_cell(0)
    lab.wait_idle()
    lab.run_cell(1)
    lab.button("Approve", 1).wait_for()
    take(lab, pictures / "approval.png", 1, 1)
    lab.click_button("Approve", 1)
    lab.wait_idle()
    lab.run_cell(2)
    lab.wait_output(2, "stats.py")
    lab.wait_idle()
    assert (lab.workspace / "stats.py").read_text() == STATS
    take(lab, pictures / "undo.png", 1, 2)
    lab.run_cell(3)
    lab.wait_idle()
    assert NEW in (lab.workspace / "stats.py").read_text()
    lab.save()
    lab.run_cell(4)
    lab.wait_output(4, "Saved")
    lab.wait_idle()
    lab.open("report.ipynb")
    set_stage(lab, 1400)
    lab.run_all()
    lab.wait_idle()
    take(lab, pictures / "run-again.png", 0, 1)


def test_the_kin_kernel(lab: Lab, kin_home: Path, model_server: ModelServer, pictures: Path) -> None:
    pytest.importorskip("pandas")
    (kin_home / "config.toml").write_text(model_server.config_toml() + "input_price = 0.4\noutput_price = 2.0\n")
    model_server.enqueue("I add up the totals of each city.", calls=[tool_call("python", code=TOTALS)])
    model_server.enqueue(ANSWER)
    lab.open(lab.set_cells([SALES, "Which city in @sales sells most?", "/cost"], kernel="kin"))
    set_stage(lab, 1400)
    lab.run_cell(0)
    lab.wait_idle()
    lab.run_cell(1)
    lab.click_button("Approve", 1)
    lab.wait_output(1, "822.75")
    lab.wait_idle()
    lab.run_cell(2)
    lab.wait_idle()
    take(lab, pictures / "kin-kernel.png", 0, 2)
