"""Interrupt: noticed at once, told in one line, queued cells stopped, kernel usable (the `nb` fixture checks that)."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.every_kernel]


def interrupted(nb, cell) -> dict:
    """Interrupt the cell and return its reply.

    Nothing but the interrupt wakes these cells before the client gives up. How long it takes: benchmarks/interrupt.py.
    """
    nb.interrupt()
    reply = nb.done(cell)
    assert reply["content"]["status"] == "error"
    return reply


def test_interrupt_while_a_card_waits(nb):
    cell = nb.run('%%agent\nawait ask("rm -rf build")\n')
    nb.card(cell)
    reply = interrupted(nb, cell)
    assert reply["content"]["ename"] == "TurnInterrupted"
    (error,) = [m["content"] for m in nb.of(cell) if m["msg_type"] == "error"]
    assert error["traceback"] == ["Interrupted. The agent was stopped."]
    settled = [m["content"]["data"]["state"].get("value", "") for m in nb.of(cell) if m["msg_type"] == "comm_msg"]
    assert "<b>Interrupted</b> <code>rm -rf build</code>" in settled


STREAMING = """%%agent
try:
    while True:
        io.stream("token ")
        await asyncio.sleep(0.01)
except asyncio.CancelledError:
    io.stream("cancelled")
    raise
"""


def test_interrupt_while_streaming_cancels_the_agent(nb):
    cell = nb.run(STREAMING)
    nb.text_of(cell, "token")
    interrupted(nb, cell)
    assert nb.text(cell).endswith("token cancelled")


def test_interrupt_stops_the_persons_code_on_the_main_thread(nb):
    cell = nb.run(
        "%%agent\n"
        "def forever():\n"
        "    io.stream('working')\n"
        "    while True: pass\n"
        "try: await submit_main(forever)\n"
        "finally: io.stream('told')\n"
    )
    nb.text_of(cell, "working")
    interrupted(nb, cell)
    assert nb.text(cell) == "workingtold"


SWALLOWING = """%%agent
def job():
    ip.run_cell("print('working', flush=True)\\nwhile True: pass")
try:
    await submit_main(job)
    await asyncio.sleep(3600)
except asyncio.CancelledError:
    io.stream("cancelled")
    raise
"""


def test_interrupt_counts_though_the_code_on_the_main_thread_swallows_it(nb):
    cell = nb.run(SWALLOWING)
    nb.text_of(cell, "working")
    nb.interrupt()
    assert nb.done(cell)["content"]["ename"] == "TurnInterrupted"
    assert nb.text(cell).endswith("cancelled")


def test_interrupt_while_input_waits(nb):
    cell = nb.run('%%agent\nawait ask("rm -rf build")\n', cell=None)
    nb.prompt()
    interrupted(nb, cell)


def test_end_of_input_interrupts(nb):
    cell = nb.run('%%agent\nawait ask("rm -rf build")\n', cell=None)
    nb.prompt()
    nb.answer("\x04")  # jupyter_console's end of file; the kernel raises EOFError
    reply = nb.done(cell)
    assert reply["content"]["ename"] == "TurnInterrupted"


def test_an_interrupted_cell_stops_the_cells_queued_behind_it(nb):
    first = nb.run('%%agent\nawait ask("rm -rf build")\n')
    second = nb.run("print('never')", cell="cell-2")
    nb.card(first)
    nb.interrupt()
    nb.done(first)
    assert nb.reply(second)["content"]["status"] == "aborted"
    nb.idle_after(second)


STUBBORN = """%%agent
async def stubborn():
    while True:
        try:
            io.stream("busy ")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            io.stream("no ")
            if released.is_set(): raise
import threading
released = threading.Event()
ip.user_ns["released"] = released
await stubborn()
"""


def test_a_second_interrupt_leaves_a_stubborn_agent_behind(nb):
    cell = nb.run(STUBBORN)
    nb.text_of(cell, "busy")
    nb.interrupt()
    nb.text_of(cell, "no")
    reply = interrupted(nb, cell)
    assert (
        reply["content"]["evalue"]
        == "The agent did not stop in time. It may still be running; restart the kernel to be sure."
    )


def test_a_stubborn_agent_is_left_behind_without_a_second_interrupt(kernel):
    nb = kernel()
    cell = nb.run(STUBBORN)
    nb.text_of(cell, "busy")
    nb.interrupt()
    reply = nb.done(cell)
    assert (
        reply["content"]["evalue"]
        == "The agent did not stop in time. It may still be running; restart the kernel to be sure."
    )


def test_an_agent_may_put_itself_in_order_on_the_main_thread(nb):
    cell = nb.run(
        "%%agent\n"
        "try:\n"
        "    io.stream('waiting')\n"
        "    await asyncio.sleep(60)\n"
        "finally:\n"
        "    io.stream(await submit_main(lambda: ' in order'))\n"
    )
    nb.text_of(cell, "waiting")
    interrupted(nb, cell)
    assert nb.text(cell) == "waiting in order"
