"""Cards in a real front end: a long reply while it is written, hostile text, and live variables with a plot."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from browser.lab import Lab
from browser.probes import PROBES
from tests.model_server import ModelServer, tool_call

PARAGRAPH = "The loader reads each file once and keeps what it has seen, so a second pass costs nothing. "
CODE = "```python\ndef mean(values):\n    return sum(values) / len(values)  # of what is there\n```\n\n"
REPLY = "".join(f"## Part {n}\n\n{PARAGRAPH * 3}\n\n{CODE}" for n in range(135))[:50_000]
CHUNK = 50
"""Characters that the server writes at once."""
HOSTILE = """
<script>window.stolen = 1</script><img src=x onerror="window.stolen = 1">
[click](javascript:window.stolen=1) [data](data:text/html,<script>window.stolen=1</script>)
![picture](http://evil.example/x.png) ![local](http://127.0.0.1:9/x.png)
<style>body { display: none }</style><iframe src="http://evil.example/"></iframe>

```html" onmouseover="window.stolen=1
</code></pre><script>window.stolen = 1</script>
```

\u202egnp.exe\u202c \x1b]8;;http://evil.example\x07here\x1b]8;;\x07 &#x202E; $\\href{javascript:window.stolen=1}{x}$
"""
ONLY_LAB = pytest.mark.parametrize("front_end", ["lab"], indirect=True)
"""What both front ends share is tried in one: Notebook 7 is made of JupyterLab's parts."""


@pytest.fixture
def kin(lab: Lab, kin_home: Path, model_server: ModelServer) -> Lab:
    (kin_home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\napi_base = "{model_server.url}"\n'
        '[[models]]\nname = "m"\nprovider = "p"\nsupports_images = true\n'
    )
    return lab


def open_with(kin: Lab, *cells: str) -> None:
    kin.open(kin.set_cells(["%load_ext kin_nb", *cells]))
    kin.run_cell(0)
    kin.wait_idle()


@ONLY_LAB
def test_a_long_reply_is_drawn_as_it_comes_and_far_less_often_than_it_grows(
    kin: Lab, model_server: ModelServer, pictures
) -> None:
    hold = threading.Event()
    model_server.enqueue(REPLY, chunk=CHUNK, delay=0.005, hold=hold)
    kin.page.add_init_script(PROBES)
    open_with(kin, "%%kin\nTell me everything.")
    kin.page.evaluate("probes.watch(1, 'Part')")
    kin.run_cell(1)
    kin.wait_output(1, "Part 60", timeout=60)
    kin.screenshot(pictures / "streaming.png")
    hold.set()
    kin.wait_idle()
    kin.wait_output(1, "1 model request")
    assert kin.outputs(1).count() == 2
    assert 2 < len(kin.page.evaluate("probes.changes")) < len(REPLY) / CHUNK / 3
    assert not kin.console_errors


@ONLY_LAB
def test_hostile_text_runs_nothing_and_asks_nothing_of_the_network(kin: Lab, model_server: ModelServer) -> None:
    (kin.workspace / "evil.txt").write_text(HOSTILE)
    command = f"printf '%s' {json.dumps('<img src=x onerror=window.stolen=1>')}; cat evil.txt"
    model_server.enqueue(HOSTILE, calls=[tool_call("bash", command=command), tool_call("<b>no tool</b>", x=HOSTILE)])
    model_server.enqueue(HOSTILE)
    open_with(kin, "%%kin --mode auto-approve\nGo.")
    kin.run_cell(1)
    kin.wait_output(1, "2 model requests")
    kin.wait_idle()
    kin.save()
    kin.reload()
    kin.wait_output(1, "2 model requests")
    assert kin.page.evaluate("window.stolen") is None
    assert kin.page.locator(".jp-Notebook").is_visible()
    assert not kin.foreign_requests
    assert not kin.outputs(1).locator("img, script, iframe, style, a[href^=javascript]").count()


@ONLY_LAB
def test_the_agent_sees_a_variable_draws_a_plot_and_the_saved_notebook_shows_both(
    kin: Lab, model_server: ModelServer, pictures
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    plot = (
        "import matplotlib.pyplot as plt\ntotals = table.groupby('city')['sales'].sum()\n"
        "totals.plot.bar(figsize=(4, 2))\nplt.show()"
    )
    model_server.enqueue("I look.", calls=[tool_call("variables", names=["table"])])
    model_server.enqueue("Now a plot.", calls=[tool_call("python", code=plot)])
    model_server.enqueue(r"Bern sells **most**, $\frac{8}{12}$ of all. See $HOME and $PATH.")
    table = "import pandas as pd\ntable = pd.DataFrame({'city': ['Bern', 'Basel', 'Bern'], 'sales': [3, 4, 5]})"
    open_with(kin, table, "%%kin\nWhich city in @table sells most?")
    kin.run_cell(1)
    kin.run_cell(2)
    kin.click_button("Approve", 2)
    kin.wait_output(2, "3 model requests")
    kin.wait_idle()
    assert kin.outputs(2).filter(has_text="sent: table").count() == 1
    assert kin.outputs(2).locator("img").count() == 1
    kin.outputs(2).locator("mjx-container").first.wait_for()
    assert kin.outputs(2).locator("mjx-container").count() == 1
    assert "See $HOME and $PATH." in kin.output_text(2)
    assert kin.outputs(2).filter(has_text="changed variables: totals").count() == 1
    assert any(part.get("type") == "image_url" for part in model_server.requests[2]["messages"][-1]["content"])
    kin.screenshot(pictures / "live-variables.png", 2)
    kin.save()
    assert [next(iter(output["data"])) for output in kin.saved()["cells"][2]["outputs"]].count("image/png") == 1


@ONLY_LAB
def test_a_command_is_edited_before_it_runs_and_parts_of_an_edit_are_left_out(
    kin: Lab, model_server: ModelServer, pictures
) -> None:
    lines = [f"line {n}\n" for n in range(1, 31)]
    (kin.workspace / "long.txt").write_text("".join(lines))
    new = "".join(["first\n", *lines[1:14], "middle\n", *lines[15:29], "last\n"])
    model_server.enqueue("I run it.", calls=[tool_call("bash", command="touch wrong.txt")])
    model_server.enqueue("I write.", calls=[tool_call("write_file", path="long.txt", content=new, overwrite=True)])
    model_server.enqueue("Done.")
    open_with(kin, "%%kin\nGo.")
    kin.run_cell(1)
    kin.click_button("Edit", 1)
    field = kin.outputs(1).locator("textarea")
    field.fill("touch right.txt")
    kin.screenshot(pictures / "editing.png", 1)
    kin.click_button("Approve", 1)
    kin.outputs(1).get_by_role("checkbox").nth(1).uncheck()
    kin.click_button("Side by side", 1)
    kin.screenshot(pictures / "parts.png", 1)
    kin.click_button("Approve", 1)
    kin.wait_output(1, "3 model requests")
    kin.wait_idle()
    assert (kin.workspace / "right.txt").exists()
    assert not (kin.workspace / "wrong.txt").exists()
    assert (kin.workspace / "long.txt").read_text() == new.replace("middle", "line 15")
    assert "right.txt" in model_server.requests[1]["messages"][-1]["content"]
    assert not kin.console_errors
