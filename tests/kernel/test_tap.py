"""What reaches a blocked cell, whose outputs are whose, and what is left when we go."""

from __future__ import annotations

import pytest
from notebook_client import says_where_to_answer

pytestmark = [pytest.mark.kernel, pytest.mark.every_kernel]

ASK = '%%agent\nd = await ask("rm -rf build")\nio.stream(f"{d.approved}")\n'


def test_run_all_keeps_each_cells_outputs_in_its_own_cell(nb):
    first, second = nb.run(ASK, cell="cell-1"), nb.run(ASK.replace("build", "dist"), cell="cell-2")
    nb.card(first)
    nb.click("Approve")
    nb.done(first)
    nb.card(second)
    nb.click("Reject")
    nb.done(second)
    assert nb.text(first) == "True"
    assert nb.text(second) == "False"
    for cell, name in ((first, "build"), (second, "dist")):
        shown = [m for m in nb.of(cell) if "data" in m["content"] and "text/plain" in m["content"]["data"]]
        assert {m["content"]["data"]["text/plain"] for m in shown} == {f"waiting: rm -rf {name}"}
    stray = [
        m
        for m in nb.seen
        if m["msg_type"] in {"stream", "display_data", "update_display_data"}
        and m["parent_header"]["msg_id"] not in {first, second}
    ]
    assert stray == []


def test_output_of_a_task_that_outlives_its_cell_stays_with_that_cell(nb):
    cell = nb.run(
        "%%agent\n"
        "import threading\n"
        "go = ip.user_ns['go'] = threading.Event()\n"
        "threading.Thread(target=lambda: (go.wait(10), io.stream('late'))).start()\n"
    )
    nb.done(cell)
    later = nb.run("go.set(); print('later')", cell="cell-2")
    nb.done(later)
    nb.text_of(cell, "late")
    assert nb.text(later) == "later\n"


def test_what_the_main_thread_prints_comes_between_what_the_agent_shows(nb):
    cell = nb.run("%%agent\nio.stream('a ')\nawait submit_main(lambda: print('b', end=' '))\nio.stream('c')\n")
    nb.done(cell)
    assert nb.text(cell) == "a b c"


def test_a_reloaded_page_gets_its_questions_answered_and_sees_the_card(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    root = nb.widget(_model_name="VBoxModel")
    with nb.second_client() as page:  # its handshake is a kernel_info_request
        assert page.ask("kernel_info_request", {})["content"]["status"] == "ok"
        known = page.ask("comm_info_request", {"target_name": "jupyter.widget"})["content"]["comms"]
        assert root in known
        control = {"comm_id": "control", "target_name": "jupyter.widget.control", "data": {}}
        page.tell("comm_open", control, {"version": "1.0.0"})
        page.comm_msg("control", {"method": "request_states"})
        told = page.until(lambda m: m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == "control")
        assert root in told["content"]["data"]["states"]
        page.close_comm("control")
        page.seen += [m for m in nb.seen if m["msg_type"] == "comm_open"]
        page.click("Approve")
        nb.until(says_where_to_answer)  # a reloaded page is a client that did not run the cell
    nb.click("Approve")
    nb.done(cell)
    assert nb.text(cell) == "True"


def test_the_kernel_says_busy_while_the_cell_waits(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    question = nb.tell("kernel_info_request", {})
    nb.idle_after(question)
    after = nb.until(lambda m: m["msg_type"] == "status" and nb.seen.index(m) > nb.seen.index(nb.idle_after(question)))
    assert (after["content"]["execution_state"], after["parent_header"]["msg_id"]) == ("busy", cell)
    nb.click("Approve")
    nb.done(cell)


def test_a_card_does_not_fire_the_persons_cell_hooks(nb):
    nb.done(nb.run("fired = []\ndef hook(*_): fired.append(1)\nget_ipython().events.register('post_execute', hook)"))
    cell = nb.run(ASK + "io.stream(f' {len(ip.user_ns[\"fired\"])}')\n")
    nb.card(cell)
    nb.type_note("typed")
    nb.tell(
        "comm_open", {"comm_id": "states", "target_name": "jupyter.widget.control", "data": {}}, {"version": "1.0.0"}
    )
    nb.idle_after(nb.comm_msg("states", {"method": "request_states"}))
    nb.close_comm("states")
    nb.click("Approve")
    nb.done(cell)
    nb.done(nb.run("get_ipython().events.unregister('post_execute', hook)"))
    assert nb.text(cell) == "True 1"  # the hook's own cell, and nothing since


def test_errors_of_the_agent_and_of_its_jobs_reach_the_cell(nb):
    cell = nb.run(
        "%%agent\ntry: await submit_main(lambda: 1 / 0)\nexcept ZeroDivisionError: io.stream('seen')\nraise ValueError('mine')\n"
    )
    reply = nb.done(cell)
    assert nb.text(cell) == "seen"
    assert (reply["content"]["ename"], reply["content"]["evalue"]) == ("ValueError", "mine")


def test_a_job_that_exits_does_not_take_the_agents_loop_with_it(nb):
    cell = nb.run(
        "%%agent\nimport sys\ntry: await submit_main(sys.exit)\nexcept RuntimeError as e: io.stream(str(e))\n"
    )
    nb.done(cell)
    assert nb.text(cell) == "SystemExit() on the main thread"
    again = nb.run("%%agent\nsys = 1\nraise SystemExit\n")
    assert nb.done(again)["content"]["ename"] == "RuntimeError"


def test_only_ipykernel_6_needs_its_waiting_thread_to_poll(nb):
    cell = nb.run("%%agent\nimport ipykernel\nio.stream(f'{ipykernel.__version__[0]} {run.on_tick is None}')\n")
    nb.done(cell)
    assert nb.text(cell) in {"6 False", "7 True"}


READER = "get_ipython().kernel.shell_stream._recv_callback"


def test_uninstall_gives_the_stream_back_to_its_reader(nb):
    nb.done(nb.run("%unload_ext agent_cells"))  # an earlier test may have installed the tap
    nb.done(nb.run(f"before = {READER}\n%load_ext agent_cells"))
    used = nb.run("%%agent\nio.stream(str(ip.user_ns['before'] == ip.kernel.shell_stream._recv_callback))\n")
    nb.done(used)
    nb.done(nb.run("%unload_ext agent_cells"))
    left = nb.run(f"k = get_ipython().kernel\nprint(before == {READER}, hasattr(k, '_kin_tap'))")
    nb.done(left)
    nb.done(nb.run("%load_ext agent_cells"))
    assert (nb.text(used), nb.text(left)) == ("False", "True False\n")


def test_every_message_after_a_run_still_reaches_the_kernel(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    nb.click("Approve")
    nb.done(cell)
    assert nb.ask("comm_info_request", {})["content"]["status"] == "ok"
    assert nb.ask("is_complete_request", {"code": "1 + 1"})["content"]["status"] == "complete"
