"""`%%kin` itself in the matrix of ipykernels: approve, reject, session, interrupt; and the Kin kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_client import LiveKernel, kept_outputs, run, shown, write_config

from tests.model_server import ModelServer, tool_call

pytestmark = pytest.mark.kernel

SLEEP = "echo $$ > pid; printf 'star%s\\n' ted; sleep 60"  # what it prints is not in its own text
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
ASK = "%%kin\nDo it."


@pytest.mark.every_kernel
def test_approved_in_the_cell(kin, model_server, tmp_path):
    model_server.enqueue("I change x.", calls=[EDIT])
    model_server.enqueue("Done.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.click("Approve")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    assert "approved by you" in shown(kin, cell)
    assert "2 model requests · 1 tool call" in shown(kin, cell)


@pytest.mark.usefixtures("file_is_known")
def test_a_servers_description_is_on_the_card_that_asks_and_in_no_output_that_stays(kin, model_server, tmp_path):
    script = Path(__file__).parents[1] / "unit" / "mcp" / "servers" / "stdio_server.py"
    with (tmp_path / "kin-home" / "config.toml").open("a") as config:
        config.write(
            f'[[mcp_servers]]\nname = "test"\ncommand = {json.dumps([sys.executable, "-ES", str(script), "normal"])}\n'
        )
    model_server.enqueue(calls=[tool_call("test_echo", word="hello")])
    model_server.enqueue("Done.")
    cell = kin.run(ASK)
    kin.card(cell)
    opened = [m["content"]["data"]["state"] for m in kin.of(cell) if m["msg_type"] == "comm_open"]
    (card,) = [state["value"] for state in opened if state["_model_name"] == "HTMLModel"]
    assert "Its server says (not verified): <code" in card
    assert ">Say it again</code>" in card
    kin.click("Approve")
    kin.done(cell)
    live = kept_outputs(kin, cell)
    assert "approved by you" in str(live)
    assert "Say it again" not in str(live)  # it would not be there when played: no record has it
    again = kept_outputs(kin, run(kin, "%kin last"))
    assert [output["data"] for output in again] == [output["data"] for output in live]


def test_rejected_with_a_note(kin, model_server, tmp_path):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("As you say.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.type_note("not this file")
    kin.click("Reject")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert "not this file" in model_server.requests[-1]["messages"][-1]["content"]


NEXT = tool_call("edit_file", path="a.py", old_string="x = 2", new_string="x = 3")


@pytest.mark.parametrize("label", ["edits of a.py", "edits of files in the workspace"])
def test_approved_for_the_session(kin, model_server, tmp_path, label):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue(calls=[NEXT])
    model_server.enqueue("Twice.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.click(f"Approve for this session: {label}")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "a.py").read_text() == "x = 3\n"
    assert "approved for this session" in shown(kin, cell)


def test_approved_always_is_a_rule_of_the_settings(kin, model_server, tmp_path):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue(calls=[NEXT])
    model_server.enqueue("Twice.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.click("Always: edits of a.py")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "a.py").read_text() == "x = 3\n"
    assert "approved always" in shown(kin, cell)
    assert str(tmp_path / "a.py") in (tmp_path / "kin-home" / "config.toml").read_text()


def test_a_subagents_question_is_asked_on_its_calls_card_which_then_says_what_it_did(kin, model_server, tmp_path):
    model_server.enqueue(calls=[tool_call("task", description="set x", prompt="Set x to 2.", profile="general")])
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("x is 2.")
    model_server.enqueue("Done.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.click("Approve")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    text = shown(kin, cell)
    assert "Subagent general: 2 model requests, 1 tool call, " in text
    assert "\n    edit_file edit a.py" in text
    assert "waiting for your answer" not in text


@pytest.mark.every_kernel
def test_interrupted_while_a_command_runs(kin, model_server, tmp_path):
    model_server.enqueue(calls=[tool_call("bash", command=SLEEP)])
    model_server.enqueue("Here again.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.click("Approve")
    kin.until(lambda m: "started" in str(m["content"].get("data", {}).get("text/plain", "")))
    kin.interrupt()
    assert kin.done(cell)["content"]["ename"] == "TurnInterrupted"
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert "interrupted" in shown(kin, cell)
    assert "Here again." in shown(kin, run(kin, ASK))


@pytest.mark.every_kernel
def test_interrupted_while_the_answer_streams(kin, model_server):
    hold = threading.Event()
    model_server.enqueue("The beginning of it.", hold=hold)
    model_server.enqueue("Here again.")
    cell = kin.run(ASK)
    kin.until(lambda m: "The begi" in str(m["content"].get("data", {}).get("text/plain", "")))
    kin.interrupt()
    assert kin.done(cell)["content"]["ename"] == "TurnInterrupted"
    hold.set()
    assert "Here again." in shown(kin, run(kin, ASK))


@pytest.mark.every_kernel
def test_interrupted_while_a_card_waits(kin, model_server, tmp_path):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Here again.")
    cell = kin.run(ASK)
    kin.card(cell)
    kin.interrupt()
    assert kin.done(cell)["content"]["ename"] == "TurnInterrupted"
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert "Here again." in shown(kin, run(kin, ASK))


@pytest.mark.every_kernel
def test_without_widgets_and_cell_ids_it_asks_by_input(kin, model_server, tmp_path):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    cell = kin.run(ASK, cell=None)
    assert "edit a.py" in kin.prompt()
    kin.answer("y")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "a.py").read_text() == "x = 2\n"


LETTERS = [
    ">>> 1 + 1 gives 3, why?\n... or not",
    "Why?\n\n    >>> f(1)\n    ... or\n    4",
    "In [1]: x = 1\n   ...: y = 2\nOut[1]: why?",
    "... and then?\n...: what",
    "In a Makefile:\n\tall:\n\t\tmake  x\n\n\n  end",
    "    def f(x):\n        return x\nIs it right?",
    "What does it do?\n%time f()\n!ls\n%%bash\n?x\nx?",
]
"""What IPython takes for its own prompts, and for its own syntax."""


def test_a_prompt_reaches_the_model_verbatim(kin, model_server):
    for prompt in LETTERS:
        model_server.enqueue("Yes.")
        run(kin, f"\n%%kin --new\n{prompt}\n")
        assert model_server.requests[-1]["messages"][-1]["content"] == prompt


def test_magics_of_others_are_read_as_ever_and_so_is_kin_once_it_is_unloaded(kin, model_server):
    model_server.enqueue("Yes.")
    run(kin, "%%kin?")
    assert model_server.requests == []
    run(kin, "%%capture said\n>>> print('captured')")
    assert kin.text(run(kin, "print(said)")) == "captured\n\n"
    run(kin, "get_ipython().run_cell_magic('kin', '', '>>> as given')")
    assert model_server.requests[0]["messages"][-1]["content"] == ">>> as given"
    ours = "print([f for f in get_ipython().input_transformers_cleanup if f.__module__.startswith('kin_nb')])"
    assert kin.text(run(kin, ours)) != "[]\n"
    run(kin, "%unload_ext kin_nb")
    assert kin.text(run(kin, ours)) == "[]\n"
    run(kin, "%load_ext kin_nb")


def test_in_a_terminal_too_a_prompt_is_typed_line_by_line_verbatim(model_server, tmp_path):
    write_config(tmp_path / "kin-home", model_server)
    model_server.enqueue("Yes.")
    paths = {
        "KIN_HOME": tmp_path / "kin-home",
        "IPYTHONDIR": tmp_path / "ipython",
        "PYTHONPATH": Path(__file__).parents[2],
    }
    subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner"],
        input="%load_ext kin_nb\n%%kin\n>>> 1 + 1\nIn [1]: or not\n\n\n",
        env={**os.environ, **{name: str(path) for name, path in paths.items()}, "TERM": "dumb"},
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert model_server.requests[0]["messages"][-1]["content"] == ">>> 1 + 1\nIn [1]: or not"


@pytest.fixture
def kin_kernel(model_server: ModelServer, tmp_path: Path) -> Iterator[LiveKernel]:
    """The kernel of the kernelspec "Kin"."""
    write_config(tmp_path / "kin-home", model_server)
    environment = {"KIN_HOME": str(tmp_path / "kin-home"), "IPYTHONDIR": str(tmp_path / "ipython")}
    live = LiveKernel([Path(__file__).parents[2]], environment, subshells=False, module="kin_nb.notebook.kernel")
    yield live
    live.close()


def test_in_the_kin_kernel_a_cell_is_a_prompt_that_reaches_the_model_verbatim(kin_kernel, model_server):
    model_server.enqueue("Hello from the model.")
    assert "Hello from the model." in shown(kin_kernel, run(kin_kernel, "Say `hello`, {please}?"))
    assert model_server.requests[0]["messages"][-1]["content"] == "Say `hello`, {please}?"
    assert "Mode: default" in shown(kin_kernel, run(kin_kernel, "/mode"))
    assert "shell" in kin_kernel.text(run(kin_kernel, "!echo shell"))
    run(kin_kernel, "%%python\nx = 1 + 2")
    assert kin_kernel.text(run(kin_kernel, "%%python\nprint(x)")) == "3\n"
    assert len(model_server.requests) == 1
    for prompt in LETTERS:
        model_server.enqueue("Yes.")
        run(kin_kernel, prompt)
        assert model_server.requests[-1]["messages"][-1]["content"] == prompt


def test_the_kernelspec_starts_this_kernel():
    spec = json.loads((Path(__file__).parents[2] / "kernelspec" / "kernel.json").read_text())
    assert spec["argv"][1:] == ["-m", "kin_nb.notebook.kernel", "-f", "{connection_file}"]
    assert spec["display_name"] == "Kin"


@pytest.mark.one_kernel
def test_where_no_snapshot_can_be_kept_the_cell_says_so_and_a_command_asks_even_in_auto_approve(
    kin, model_server, tmp_path
):
    (tmp_path / "kin-home" / "checkpoints").write_text("a file where the folder should be")
    command = tool_call("bash", command="rm a.py")
    model_server.enqueue(calls=[command])
    model_server.enqueue("Gone.")
    cell = kin.run("%%kin --mode auto-approve\nRemove it.")
    kin.card(cell)
    kin.click("Approve")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert not (tmp_path / "a.py").exists()
    text = shown(kin, cell)
    assert "[note: not covered by undo" in text
    assert "warning: The file history in " in text
    undone = shown(kin, run(kin, "%kin undo"))
    assert "left as it is: a.py" in undone
    assert "undo does not restore: no snapshot was kept" in undone
