"""%%kin in a real JupyterLab and a real Notebook 7: asking, answering, interrupting, reloading, saving."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from browser.conftest import LAB_FIRST
from browser.lab import Lab
from tests.model_server import ModelServer, tool_call

SLEEP = "echo $$ > pid; printf 'star%s\\n' ted; sleep 60"  # what it prints is not in its own text
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
LOAD = "%load_ext kin_nb"
ASK = "%%kin\nDo it."


@pytest.fixture
def kin(lab: Lab, kin_home: Path, model_server: ModelServer) -> Lab:
    """A page whose kernel has the model server for its model, and a workspace with one file."""
    (kin_home / "config.toml").write_text(model_server.config_toml())
    (lab.workspace / "a.py").write_text("x = 1\n")
    return lab


def start(kin: Lab, *cells: str) -> None:
    """Open a notebook with `cells` after the load cell, run that one, then begin with cell 1."""
    kin.open(kin.set_cells([LOAD, *cells]))
    kin.run_cell(0)
    kin.wait_idle()
    kin.run_cell(1)


def ran(pid_file: Path) -> bool:
    """Whether the process that wrote its number into `pid_file` still runs."""
    return Path(f"/proc/{pid_file.read_text().strip()}").exists()


def last_message(server: ModelServer) -> str:
    return server.requests[-1]["messages"][-1]["content"]


def test_an_edit_shows_its_diff_and_runs_once_approved(kin, model_server, pictures):
    model_server.enqueue("I change x.", calls=[EDIT])
    model_server.enqueue("Done: **x** is 2.")
    start(kin, ASK)
    kin.button("Approve", 1).wait_for()
    asked = kin.output_text(1)
    assert "-x = 1" in asked
    assert "+x = 2" in asked
    assert (kin.workspace / "a.py").read_text() == "x = 1\n"
    kin.screenshot(pictures / f"asking-{kin.front_end}.png")
    kin.click_button("Approve", 1)
    kin.wait_output(1, "Done: x is 2.")
    kin.wait_idle()
    assert (kin.workspace / "a.py").read_text() == "x = 2\n"
    settled = kin.output_text(1)
    assert "approved by you" in settled
    assert re.search(r"2 model requests · 1 tool call .* done", settled)
    assert kin.outputs(1).get_by_role("button").count() == 0
    kin.screenshot(pictures / f"settled-{kin.front_end}.png")
    assert (kin.console_errors, kin.foreign_requests) == ([], [])


@LAB_FIRST
def test_a_rejection_with_a_note_reaches_the_agent_whole(kin, model_server):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("As you say.")
    start(kin, ASK)
    kin.type_note("no, rename it to width first", 1)
    kin.click_button("Reject", 1)
    kin.wait_output(1, "As you say.")
    kin.wait_idle()
    assert "no, rename it to width first" in last_message(model_server)
    assert (kin.workspace / "a.py").read_text() == "x = 1\n"


@pytest.mark.long
@LAB_FIRST
def test_approved_for_the_session_is_not_asked_again(kin, model_server):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue(calls=[tool_call("edit_file", path="a.py", old_string="x = 2", new_string="x = 3")])
    model_server.enqueue("Twice.")
    start(kin, ASK)
    kin.click_button("Approve for this session: edits of a.py", 1)
    kin.wait_output(1, "Twice.")
    kin.wait_idle()
    assert (kin.workspace / "a.py").read_text() == "x = 3\n"
    assert "approved for this session" in kin.output_text(1)


@pytest.mark.long
@LAB_FIRST
def test_interrupt_while_the_answer_streams(kin, model_server):
    hold = threading.Event()
    model_server.enqueue("The beginning of an answer that never ends.", hold=hold)
    model_server.enqueue("Here again.")
    start(kin, ASK, "1 + 1", ASK)
    kin.wait_output(1, "The beginning")
    kin.interrupt()
    kin.wait_output(1, "Interrupted")
    kin.wait_idle()
    hold.set()
    goes_on(kin, model_server)
    assert "The beginning" in kin.output_text(1)


@LAB_FIRST
def test_interrupt_while_a_card_waits(kin, model_server):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Here again.")
    start(kin, ASK, "1 + 1", ASK)
    kin.button("Approve", 1).wait_for()
    kin.interrupt()
    kin.wait_output(1, "Interrupted")
    kin.wait_idle()
    assert kin.outputs(1).get_by_role("button").count() == 0
    goes_on(kin, model_server)
    assert (kin.workspace / "a.py").read_text() == "x = 1\n"


@LAB_FIRST
def test_interrupt_while_a_command_runs_leaves_no_process(kin, model_server):
    model_server.enqueue(calls=[tool_call("bash", command=SLEEP)])
    model_server.enqueue("Here again.")
    start(kin, ASK, "1 + 1", ASK)
    kin.click_button("Approve", 1)
    kin.wait_output(1, "started")
    assert ran(kin.workspace / "pid")
    kin.interrupt()
    kin.wait_output(1, "Interrupted")
    kin.wait_idle()
    assert not ran(kin.workspace / "pid")
    goes_on(kin, model_server)


def goes_on(kin: Lab, server: ModelServer) -> None:
    """The kernel answers, and the next prompt's history is one that a strict server takes (the fixture checks it)."""
    kin.run_cell(2)
    kin.wait_output(2, "2")
    kin.run_cell(3)
    kin.wait_output(3, "Here again.")
    kin.wait_idle()
    assert "interrupted" in kin.output_text(1)
    assert server.violations == []


def test_run_all_keeps_each_answer_in_its_own_cell(kin, model_server):
    model_server.enqueue("Alpha.", calls=[EDIT])
    model_server.enqueue("Alpha is done.")
    model_server.enqueue("Beta.", calls=[tool_call("bash", command="touch beta")])
    model_server.enqueue("Beta is done.")
    kin.open(kin.set_cells([LOAD, "%%kin\nfirst", "%%kin\nsecond"]))
    kin.run_all()
    kin.button("Approve", 1).wait_for()
    assert kin.outputs(2).count() == 0
    kin.click_button("Approve", 1)
    kin.click_button("Approve", 2)
    kin.wait_idle()
    first, second = kin.output_text(1), kin.output_text(2)
    assert "Alpha is done." in first
    assert "Beta" not in first
    assert "Beta is done." in second
    assert "Alpha" not in second


@LAB_FIRST
def test_after_a_reload_the_waiting_card_says_where_to_answer_and_interrupting_frees_the_cell(kin, model_server):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    start(kin, ASK)
    kin.button("Approve", 1).wait_for()
    kin.save()
    kin.reload()
    kin.click_button("Approve", 1)
    kin.wait_output(1, "Answer on the page that ran it")
    kin.interrupt()
    kin.wait_idle()
    assert (kin.workspace / "a.py").read_text() == "x = 1\n"
    kin.run_cell(1)
    kin.click_button("Approve", 1)
    model_server.wait_for_request(3)
    kin.wait_idle()
    assert (kin.workspace / "a.py").read_text() == "x = 2\n"


@LAB_FIRST
def test_three_inserts_of_one_turn_are_one_new_cell_with_the_code_of_all(kin, model_server):
    """The kernel's message holds one new cell, and the front end takes the first of them: no card may promise another."""
    parts = ["a = 1", "b = a + 1", "print(b)"]
    model_server.enqueue(calls=[tool_call("notebook", action="insert", code=part) for part in parts])
    model_server.enqueue("Run it.")
    start(kin, ASK, "last = 1")
    kin.wait_idle()
    assert kin.output_text(1).count("put code into the new cell below this one") == 3
    kin.save()
    assert [cell.source for cell in kin.saved().cells[1:]] == [ASK, "\n\n".join(parts), "last = 1"]
    results = [message["content"] for message in model_server.requests[-1]["messages"] if message["role"] == "tool"]
    assert ["added at the end" in result for result in results] == [False, True, True]


@LAB_FIRST
def test_the_saved_file_holds_receipts_and_no_widgets(kin, model_server):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    start(kin, ASK, "%kin save")
    kin.click_button("Approve", 1)
    kin.wait_idle()
    kin.save()
    kin.run_cell(2)
    kin.wait_output(2, "Saved")
    kin.wait_idle()
    for name in (None, "session.kin.ipynb"):
        nb = kin.saved(name)
        assert "widgets" not in nb.metadata
        kinds = {mime for output in nb.cells[1].outputs for mime in output.get("data", {})}
        assert kinds == {"text/html", "text/plain"}
        assert "approved by you" in "".join(str(output) for output in nb.cells[1].outputs)
    assert nb.metadata.kin.format == 2
    assert "kin" not in kin.saved().metadata  # the open file is never written
