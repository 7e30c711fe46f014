"""The tools in a real kernel: what they reach, and that nothing of them reaches the front end by itself."""

from __future__ import annotations

import re
import textwrap

import pytest
from notebook_client import LiveKernel

pytestmark = pytest.mark.kernel

AGENT = """%%agent
from kin_nb.core.tools.base import BaseToolConfig, tool_output
from kin_nb.notebook.namespace import main_thread, namespace_tools
main_thread.set(submit_main)
tools = {name: tool.from_config(BaseToolConfig()) for name, tool in namespace_tools(ip).items()}
async def told(name, **arguments):
    return tools[name].to_model(await tools[name].invoke(**arguments))
"""


def agent(nb: LiveKernel, body: str) -> tuple[str, dict]:
    """(what the cell says, its reply)"""
    cell = nb.run(AGENT + textwrap.dedent(body))
    reply = nb.done(cell)
    return nb.text(cell), reply


def kinds(nb: LiveKernel, since: int = 0) -> list[str]:
    return [m["msg_type"] for m in nb.seen[since:] if m["msg_type"] not in {"status", "execute_input"}]


def run(nb: LiveKernel, code: str) -> str:
    cell = nb.run(code)
    assert nb.done(cell)["content"]["status"] == "ok"
    return nb.text(cell)


def test_the_agent_sees_and_changes_the_persons_variables(nb):
    run(nb, "prices = {'apple': 3, 'pear': 4}")
    text, _ = agent(nb, "return await told('variables')")
    assert re.search(r"prices +dict", text)  # the kernel is another test's too: its names may be longer
    text, _ = agent(nb, "return await told('python', code='prices[\"plum\"] = 5\\nsum(prices.values())')")
    assert text == "12\n[new or changed: prices]\n"
    assert run(nb, "print(prices['plum'])") == "5\n"


@pytest.mark.every_kernel
def test_nothing_of_the_code_reaches_the_front_end_by_itself(nb):
    before = len(nb.seen)
    code = (
        "import subprocess\nfrom IPython.display import display, HTML\nprint('printed')\ndisplay(HTML('<b>x</b>'))\n"
        "child = subprocess.run(['echo', 'from a child'])\n"
        "class Bad:\n    def __repr__(self): raise ValueError('broken')\ndisplay(Bad())\n1 / 0"
    )
    text, reply = agent(nb, f"return await told('python', code={code!r})")
    assert kinds(nb, before) == ["stream"]
    assert reply["content"]["status"] == "ok"
    for wanted in ("printed", "IPython.core.display.HTML", "from a child", "ValueError: broken", "ZeroDivisionError"):
        assert wanted in text
    assert "kin_nb" not in text


def test_the_persons_own_history_stays(nb):
    run(nb, "40 + 2")
    agent(nb, "return await told('python', code='99')")
    assert run(nb, "print(_, [n for n in Out.values() if n == 99])") == "42 []\n"


def test_code_that_leaves_the_program_leaves_the_kernel_alone(nb):
    text, reply = agent(nb, "return await told('python', code='exit()')")
    assert "SystemExit" in text
    assert [payload["source"] for payload in reply["content"]["payload"]] == []


@pytest.mark.every_kernel
def test_interrupt_stops_the_code_and_the_kernel_continues(nb):
    cell = nb.run(
        AGENT
        + "tool_output.set(lambda text: io.stream(text))\n"
        + "return await told('python', code='kept = 1\\nimport time\\nprint(\"begun\")\\ntime.sleep(60)')"
    )
    nb.text_of(cell, "begun")
    nb.interrupt()
    assert nb.done(cell)["content"]["ename"] == "TurnInterrupted"
    assert run(nb, "print(kept)") == "1\n"


def test_a_variable_that_hangs_is_cut_off(nb):
    run(nb, "import time\nclass Hangs:\n    @property\n    def shape(self): time.sleep(60)\nhangs = Hangs()")
    text, _ = agent(nb, "return await told('variables', names=['hangs'])")
    assert "[cut off: looking at it takes longer than 2 s]" in text
    run(nb, "del hangs")


@pytest.mark.every_kernel
def test_a_new_cell_is_put_below_this_one(nb):
    _, reply = agent(
        nb,
        "await told('notebook', action='insert', code='a')\nreturn await told('notebook', action='insert', code='b')",
    )
    [payload] = reply["content"]["payload"]
    assert payload == {"source": "set_next_input", "text": "a\n\nb", "replace": False}


def test_without_a_file_the_cells_are_those_that_ran(nb):
    run(nb, "first_of_these = 1")
    text, _ = agent(nb, "return await told('notebook', action='read', last=1)")
    assert "first_of_these = 1" in text
    assert "%%agent" not in text


def test_figures_come_with_the_result_and_are_not_left_for_the_cell(nb):
    pytest.importorskip("matplotlib")
    before = len(nb.seen)
    text, _ = agent(nb, "return await told('python', code='import matplotlib.pyplot as plt\\np = plt.plot([1, 2])')")
    assert "[1 picture with this result]" in text
    assert kinds(nb, before) == ["stream"]
