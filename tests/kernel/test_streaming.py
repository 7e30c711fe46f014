"""A reply as it is written: in widgets, in a front end without them, in a console, and with no one there."""

from __future__ import annotations

import itertools
import threading

import pytest
from notebook_client import WIDGET_VIEW, LiveKernel, kept_outputs, said, shown

from kin_nb.notebook.streaming.reply_view import live_html
from tests.model_server import tool_call

TEXT = "".join(
    f"Paragraph {n} says something of its own, at a length that is worth a line or two.\n\n" for n in range(30)
)


def displays(nb: LiveKernel, cell: str) -> list[dict]:
    return [m["content"] for m in nb.of(cell) if m["msg_type"] in {"display_data", "update_display_data"}]


def first_outputs(nb: LiveKernel, cell: str) -> list[str]:
    """The text of each output as it first came."""
    return [m["content"]["data"]["text/plain"] for m in nb.of(cell) if m["msg_type"] == "display_data"]


@pytest.mark.every_kernel
@pytest.mark.usefixtures("file_is_known")
def test_a_long_reply_is_written_into_widgets_and_settles_into_one_static_output(kin, model_server):
    hold = threading.Event()
    model_server.enqueue(TEXT, chunk=1_500, hold=hold)
    cell = kin.run("%%kin\ngo")
    kin.until(lambda m: WIDGET_VIEW in m["content"].get("data", {}))
    kin.until(lambda m: "Paragraph 2 " in str(m["content"].get("data", {}).get("state", {}).get("value")))
    hold.set()
    assert kin.done(cell)["content"]["status"] == "ok"
    assert len(first_outputs(kin, cell)) == 2
    views = [WIDGET_VIEW in content["data"] for content in displays(kin, cell)[:-1]]  # the summary line is the last
    assert views == [*sorted(views[:-1]), False]  # once it is in widgets it stays there, until it settles
    settled = displays(kin, cell)[-2]["data"]
    assert set(settled) == {"text/html", "text/plain"}
    assert settled["text/plain"] == TEXT.strip()
    opened = set(kin.widgets())
    closed = {m["content"]["comm_id"] for m in kin.seen if m["msg_type"] == "comm_close"}
    assert opened
    assert closed == opened


def test_the_widgets_show_the_text_from_the_first_and_none_of_them_ever_moves(kin, model_server):
    model_server.enqueue(TEXT, chunk=400, delay=0.1)
    kin.done(kin.run("%%kin\ngo"))
    opened = {m["content"]["comm_id"]: m["content"]["data"]["state"] for m in kin.seen if m["msg_type"] == "comm_open"}
    [box] = [state for state in opened.values() if state["_model_name"] == "VBoxModel"]
    _sheet, first = box["children"]
    assert "Paragraph 0 " in opened[first.removeprefix("IPY_MODEL_")]["value"]
    children = [box["children"]] + [
        m["content"]["data"]["state"]["children"]
        for m in kin.seen
        if m["msg_type"] == "comm_msg" and "children" in m["content"]["data"].get("state", {})
    ]
    assert len(children) > 1
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(children))


CODE = "```python\n" + "".join(f"def f_{n}(x):\n    return x + {n}\n" for n in range(200)) + "```"
LIST = "".join(f"- item {n} of a list that goes on and on\n" for n in range(200))
TABLE = "| a | b | c |\n|---|---|---|\n" + "".join(f"| row {n} | a value | another |\n" for n in range(200))


@pytest.mark.parametrize("text", [CODE, LIST, TABLE], ids=["code", "list", "table"])
def test_a_block_that_grows_long_is_sent_in_pieces(kin, model_server, text):
    model_server.enqueue(text, chunk=400, delay=0.1)
    kin.done(kin.run("%%kin\ngo"))
    states = [m["content"]["data"].get("state", {}) for m in kin.seen if m["msg_type"] in {"comm_open", "comm_msg"}]
    sizes = [len(state["value"]) for state in states if "value" in state]
    assert len([state for state in states if "children" in state]) > 2
    assert max(sizes) < len(live_html(text))  # how large a piece is depends on how busy the machine is


@pytest.mark.every_kernel
@pytest.mark.usefixtures("file_is_known")
def test_a_front_end_without_widgets_gets_the_text_in_place(kin, model_server):
    hold = threading.Event()
    model_server.enqueue(TEXT, chunk=1_500, hold=hold)
    cell = kin.run("%%kin\ngo")
    kin.until(lambda m: m["msg_type"] == "comm_open")
    kin.close_comms()
    plain = kin.until(
        lambda m: (
            m["msg_type"] == "update_display_data"
            and WIDGET_VIEW not in m["content"]["data"]
            and "Paragraph 2 " in m["content"]["data"]["text/plain"]
        )
    )
    hold.set()
    assert kin.done(cell)["content"]["status"] == "ok"
    assert plain["content"]["transient"]["display_id"]
    assert len(first_outputs(kin, cell)) == 2
    assert TEXT.strip() in shown(kin, cell)


@pytest.mark.every_kernel
def test_a_console_reads_along_and_nothing_comes_twice(kin, model_server):
    hold = threading.Event()
    model_server.enqueue(TEXT, chunk=1_500, hold=hold)
    cell = kin.run("%%kin\ngo", cell=None)
    kin.until(lambda m: "Paragraph 2 " in str(m["content"].get("data", {}).get("text/plain")))
    hold.set()
    kin.done(cell)
    texts = first_outputs(kin, cell)
    assert "\n".join(texts[:-1]) == TEXT.strip()  # each but the first with a blank line above it
    assert "1 model request" in texts[-1]
    assert not any(m["msg_type"] == "update_display_data" for m in kin.of(cell))


@pytest.mark.every_kernel
def test_with_no_one_there_each_reply_comes_once_and_whole(kin, model_server):
    model_server.enqueue(TEXT)
    cell = kin.run("%%kin\ngo", cell=None, allow_stdin=False)
    kin.done(cell)
    assert first_outputs(kin, cell)[0] == TEXT.strip()
    assert not kin.widgets()


@pytest.mark.usefixtures("file_is_known")
@pytest.mark.parametrize("person", [{"cell": "cell-1"}, {"cell": None}], ids=["notebook", "console"])
def test_what_takes_longer_than_a_second_says_so_and_leaves_nothing(kin, model_server, person):
    model_server.enqueue(calls=[tool_call("bash", command="sleep 1.5")])
    model_server.enqueue("Done.")
    cell = kin.run("%%kin\ngo", **person)
    line = "step 1: bash sleep 1.5 · 1 s"
    kin.until(lambda m: line in str(m["content"]))
    kin.done(cell)
    assert line not in shown(kin, cell)
    assert len(first_outputs(kin, cell)) == 3


@pytest.mark.usefixtures("file_is_known")
def test_a_retry_is_shown_in_the_cell_with_its_reason_and_time(kin, model_server):
    hold = threading.Event()
    model_server.enqueue(status=503, headers={"Retry-After": "0"}, body={"error": "warming up"})
    model_server.enqueue("Hello.", hold=hold, chunk=100)
    cell = kin.run("%%kin\ngo")
    line = "step 1: trying again in 0.5 s (2 of 3): local server answered with an error (503) at "
    kin.until(lambda m: m["content"].get("data", {}).get("text/plain", "").startswith(line))
    hold.set()
    kin.done(cell)
    outputs = kept_outputs(kin, cell)
    assert "trying again" not in str(outputs)
    assert len(outputs) == 2


def test_a_server_that_asks_for_a_day_is_not_waited_for(kin, model_server):
    model_server.enqueue(status=429, headers={"Retry-After": "86400"})
    cell = kin.run("%%kin\ngo")
    kin.done(cell)
    assert "(429: the server asks for 24 h)" in shown(kin, cell) + said(kin, cell) + str(kin.of(cell))
    assert len(model_server.requests) == 1
