"""Every state of a turn, pictured in both themes and a narrow window. What the pictures show can be read and reached by all."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter

from browser.camera import HEIGHT, WIDE, Camera
from browser.lab import Lab
from tests.model_server import ModelServer, tool_call

pytestmark = [pytest.mark.long, pytest.mark.parametrize("front_end", ["lab"], indirect=True)]

TABLE = """import pandas as pd
cities, totals = ["Bern", "Basel", "Bern", "Chur"], [310.5, 402.0, 512.25, 88.0]
sales = pd.DataFrame({"city": cities, "month": [1, 1, 2, 2], "total": totals})"""
LOADER = '''"""Reads what the shops sent."""

import csv


def load(path):
    rows = []
    for row in csv.reader(open(path)):
        rows.append(row)
    return rows


def mean(values):
    return sum(values) / len(values)


def spread(values):
    low, high = min(values), max(values)
    return high - low


def report(path):
    rows = load(path)
    print("rows:", len(rows))
'''
NEW_LOADER = LOADER.replace(
    """    rows = []
    for row in csv.reader(open(path)):
        rows.append(row)
    return rows
""",
    '''    """Each row as a dict; the file is closed again, whatever happens."""
    with open(path, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
''',
).replace(
    'print("rows:", len(rows))',
    "print(f\"{len(rows):,} rows, mean {mean([float(row['total']) for row in rows]):.2f}\")",
)
TODOS = [
    {"id": "1", "content": "Look at the loader and at the table", "status": "completed"},
    {"id": "2", "content": "Close the file, and read dicts", "status": "in_progress"},
    {"id": "3", "content": "Plot the totals by city", "status": "pending", "priority": "high"},
    {"id": "4", "content": "Write to the shops", "status": "cancelled"},
]
PLOT = """import matplotlib.pyplot as plt
totals = sales.groupby("city")["total"].sum().sort_values()
totals.plot.barh(figsize=(5, 2), title="Total by city")
plt.show()
totals"""
COMMAND = (
    "python -m pytest -q --no-header 2>&1 | tail -n 3; "
    "for shop in Bern Basel Chur; do printf '%-10s %s\\n' \"$shop\" ok; done; touch done.txt"
)
REASONING = "The loader leaves its file open.\n\nI want to see the table first, then change the loader, then plot."
ANSWER = r"""## What I found

Bern sells **most**: 822.75 of 1,312.75, which is $\frac{822.75}{1312.75} \approx 63\,\%$. The loader left its file open; `load` now
closes it, see the [csv documentation](https://docs.python.org/3/library/csv.html).

| city | total | share |
|---|---:|---:|
| Bern | 822.75 | 63 % |
| Basel | 402.00 | 31 % |
| Chur | 88.00 | 7 % |

$$\bar{x} = \frac{1}{n} \sum_{i=1}^{n} x_i$$

```python
def mean(values):
    return sum(values) / len(values)  # of what is there
```

> Chur sent one month only.

1. Ask Chur for January.
2. Run `report("sales.csv")` again, with $HOME and $PATH as they are.
"""
LOOKS = "I look at the table and the loader, and write down what there is to do."


@pytest.fixture
def kin(lab: Lab, kin_home: Path, model_server: ModelServer) -> Lab:
    settings = model_server.config_toml() + "supports_images = true\ninput_price = 0.4\noutput_price = 2.0\n"
    (kin_home / "config.toml").write_text(settings)
    (lab.workspace / "loader.py").write_text(LOADER)
    return lab


@pytest.fixture
def camera(kin: Lab, pictures: Path) -> Camera:
    kin.page.set_viewport_size({"width": WIDE, "height": HEIGHT})
    return Camera(kin, pictures)


def open_with(kin: Lab, *cells: str) -> None:
    kin.open(kin.set_cells(["%load_ext kin_nb", *cells]))
    kin.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    kin.run_cell(0)
    kin.wait_idle()


def test_a_turn_from_its_first_words_to_its_receipt(
    kin: Lab, model_server: ModelServer, camera: Camera, pictures: Path
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    hold = threading.Event()
    first = [tool_call("todo", action="write", todos=TODOS), tool_call("variables", names=["sales"])]
    model_server.enqueue(
        ANSWER, reasoning=REASONING, calls=[*first, tool_call("read_file", path="loader.py")], hold=hold
    )
    model_server.enqueue("Now the tests.", calls=[tool_call("bash", command=COMMAND)])
    model_server.enqueue(calls=[tool_call("write_file", path="loader.py", content=NEW_LOADER, overwrite=True)])
    model_server.enqueue("And the plot.", calls=[tool_call("python", code=PLOT)])
    model_server.enqueue(ANSWER)
    open_with(kin, TABLE, "%%kin\nWhich city in @sales sells most? Then mend @loader.py.", "%kin save session-out")
    kin.run_cell(1)
    kin.wait_idle()
    kin.run_cell(2)
    kin.wait_output(2, "Ask Chur")
    camera.take("writing", 2)
    hold.set()
    decide_by_keyboard_and_mouse(kin, camera)
    camera.take("settled", 2)
    kin.run_cell(2)
    kin.wait_output(2, "--retry")
    kin.wait_idle()
    camera.take("answered", 2)
    kin.run_cell(3)
    kin.wait_output(3, "Saved")
    kin.wait_idle()
    kin.save()
    assert camera.flaws == []
    assert kin.console_errors == []
    reopened(kin, camera, pictures)


def decide_by_keyboard_and_mouse(kin: Lab, camera: Camera) -> None:
    """A command by Enter on its button, an edit by a click, code by the space bar."""
    kin.button("Approve", 2).wait_for()
    camera.take("asking-command", 2)
    kin.click_button("Edit", 2)
    camera.take("editing", 2)
    kin.click_button("Cancel edit", 2)
    kin.outputs(2).locator("textarea").wait_for(state="hidden")
    for name in ("Approve", "Approve for this session: exactly this command"):
        kin.page.keyboard.press("Tab")
        assert kin.page.evaluate("document.activeElement.textContent") == name
    camera.take("focus", 2)
    kin.page.keyboard.press("Shift+Tab")
    kin.page.keyboard.press("Enter")
    kin.outputs(2).get_by_role("checkbox").nth(1).wait_for()
    camera.take("asking-diff", 2)
    kin.click_button("Side by side", 2)
    camera.take("asking-side-by-side", 2)
    kin.click_button("Approve", 2)
    kin.outputs(2).get_by_role("button", name="Reject").wait_for()
    kin.wait_output(2, "plt.show")
    camera.take("asking-python", 2)
    kin.button("Approve", 2).focus()
    kin.page.keyboard.press("Space")
    kin.wait_output(2, "5 model requests")
    kin.wait_idle()


def reopened(kin: Lab, camera: Camera, pictures: Path) -> None:
    """The saved session as someone else sees it, whose front end trusts no HTML; and with no style at all."""
    kin.open("session-out.ipynb")
    kin.page.locator(".jp-NotebookTrustedStatus, .jp-StatusItem-trust").first.wait_for()
    cell = next(n for n in range(9) if kin.cell(n).filter(has_text="%%kin").count())
    camera.take("reopened", cell, look=False)
    soup = BeautifulSoup(HTMLExporter().from_notebook_node(kin.saved("session-out.ipynb"))[0], "html.parser")
    for tag in soup.find_all(["script", "style", "link"]):
        tag.decompose()
    for tag in soup.find_all(style=True):
        del tag["style"]
    page = kin.page.context.new_page()
    page.set_content(str(soup))
    page.screenshot(path=pictures / "no-styles.png", full_page=True)
    assert page.locator("text=+4 -5").count() == 1


def test_a_question_a_subagent_a_refusal_and_a_plan(kin: Lab, model_server: ModelServer, camera: Camera) -> None:
    question = "Which shop do I leave out of the report?"
    ask = tool_call("ask_user", question=question, choices=["None of them", "Chur, for it sent one month only"])
    model_server.enqueue("I ask first.", calls=[ask])
    model_server.enqueue(calls=[tool_call("task", description="find the readers", prompt="Who reads the files?")])
    model_server.enqueue(calls=[tool_call("read_file", path="loader.py"), tool_call("grep", pattern="def ")])
    model_server.enqueue("`load` and nobody else.")
    model_server.enqueue("That is `load`.")
    model_server.enqueue(calls=[tool_call("write_file", path="new.py", content=LOADER)])
    model_server.enqueue("As you say: shops.py.")
    model_server.enqueue("## The plan\n\n1. **Read** the loader.\n2. Close its file.\n3. Plot.")
    open_with(kin, "%%kin\nWho reads the files?", "%%kin\nWrite new.py.", "%%kin --mode plan\nPlan it.")
    kin.run_cell(1)
    kin.button("None of them", 1).wait_for()
    camera.take("asking-question", 1)
    kin.click_button("None of them", 1)
    kin.wait_output(1, "That is load.")
    kin.wait_idle()
    kin.cell(1).evaluate("cell => cell.querySelectorAll('details').forEach(details => { details.open = true; })")
    camera.take("subagent", 1)
    kin.run_cell(2)
    kin.type_note("Call it shops.py instead.", 2)
    kin.click_button("Reject", 2)
    kin.wait_idle()
    camera.take("refused", 2)
    kin.run_cell(3)
    kin.wait_idle()
    camera.take("plan", 3)
    assert camera.flaws == []


def test_what_goes_wrong_and_what_is_stopped(kin: Lab, model_server: ModelServer, camera: Camera) -> None:
    failing = tool_call("bash", command="echo 'Traceback: no such shop' >&2; exit 3")
    slow = tool_call("bash", command="for n in 1 2 3; do echo shop $n; done; sleep 60")
    model_server.enqueue("I run it.", calls=[failing])
    model_server.enqueue(status=401, body={"error": {"message": "invalid key"}})
    model_server.enqueue(calls=[slow])
    open_with(kin, "%%kin\nRun it.", "%%kin --mode auto-approve\nRun it slowly.", "%kin nosuch")
    kin.run_cell(1)
    kin.wait_output(1, "invalid key")
    kin.wait_idle()
    camera.take("error", 1)
    kin.run_cell(2)
    kin.wait_output(2, "shop 3")
    camera.take("running", 2)
    kin.interrupt()
    kin.wait_idle()
    camera.take("interrupted", 2)
    kin.run_cell(3)
    kin.wait_idle()
    camera.take("unknown-command", 3)
    assert camera.flaws == []


def test_what_commands_show(kin: Lab, model_server: ModelServer, camera: Camera) -> None:
    model_server.enqueue(calls=[tool_call("write_file", path="loader.py", content=NEW_LOADER, overwrite=True)])
    model_server.enqueue("Mended.")
    model_server.enqueue("The person asked for a better loader, and has it. **Next**: a test.")
    names = ["diff", "compact", "cost", "undo", "help"]
    open_with(kin, "%%kin --mode auto-approve\nMend loader.py.", *(f"%kin {name}" for name in names))
    kin.run_cell(1)
    kin.wait_output(1, "Mended.")
    kin.wait_idle()
    for cell, name in enumerate(names, 2):
        kin.run_cell(cell)
        kin.wait_idle()
        camera.take(name, cell)
    assert camera.flaws == []


def test_the_launcher_offers_kin(kin: Lab, camera: Camera, pictures: Path) -> None:
    open_with(kin)
    kin.page.evaluate("jupyterapp.commands.execute('launcher:create')")
    launcher = kin.page.locator(".jp-Launcher")
    launcher.get_by_text("Kin", exact=True).first.wait_for()
    for theme in ("dark", "light"):
        camera.theme(theme)
        launcher.screenshot(path=pictures / f"launcher-{theme}.png")


def test_what_a_console_shows(kin: Lab, model_server: ModelServer, pictures: Path) -> None:
    """The Kin kernel in `jupyter console`, every line a prompt or an answer."""
    edit = tool_call("edit_file", path="loader.py", old_string="rows = []", new_string="rows = list()")
    model_server.enqueue(LOOKS, calls=[tool_call("todo", action="write", todos=TODOS), edit])
    model_server.enqueue(ANSWER)
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_console", "--simple-prompt", "--no-confirm-exit", "--kernel", "kin"],
        input="Mend loader.py.\ny\n%kin diff\n",
        capture_output=True,
        text=True,
        cwd=kin.workspace,
        env=kin.server.home.environment(),
        timeout=60,
        check=True,
    )
    (pictures / "console.txt").write_text(done.stdout)
    assert "approved by you" in done.stdout
    assert "Turn 1 changed a file" in done.stdout
