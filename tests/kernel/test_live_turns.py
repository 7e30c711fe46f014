"""Live variables through `%%kin`: what a prompt attaches, what the model sees and changes, what a person is asked."""

from __future__ import annotations

import pytest
from notebook_client import run, shown

from tests.model_server import tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.every_kernel]


def test_a_prompt_attaches_a_variable_and_the_model_works_on_it(kin, model_server):
    run(kin, "prices = {'apple': 3}")
    code = "prices['pear'] = 4\nsum(prices.values())"
    model_server.enqueue(calls=[tool_call("variables"), tool_call("python", code=code)])
    model_server.enqueue(calls=[tool_call("notebook", action="insert", code="prices")])
    model_server.enqueue("Done.")
    cell = kin.run("%%kin\nSum @prices, see @a.py and mail me@x.org.")
    kin.card(cell)
    kin.click("Approve")
    reply = kin.done(cell)["content"]
    assert reply["status"] == "ok"
    assert reply["payload"] == [{"source": "set_next_input", "text": "prices", "replace": False}]
    asked = model_server.requests[0]["messages"][-1]["content"]
    assert asked.startswith("Sum @prices, see @a.py and mail me@x.org.\n\n[attached")
    assert "  apple: int" in asked
    assert "--- a.py (6 B)\nx = 1" in asked
    assert model_server.requests[1]["messages"][-1]["content"] == "7\n[new or changed: prices]"
    assert kin.text(run(kin, "print(prices)")) == "{'apple': 3, 'pear': 4}\n"
    assert "approved by you" in shown(kin, cell)


def test_interrupt_stops_the_models_code_and_the_kernel_continues(kin, model_server):
    code = "kept = 1\nimport time\nprint('be' + 'gun')\ntime.sleep(60)"
    model_server.enqueue(calls=[tool_call("python", code=code)])
    model_server.enqueue("Here again.")
    cell = kin.run("%%kin --mode auto-approve\nGo.")
    kin.until(lambda m: "begun" in str(m["content"].get("data", {}).get("text/plain", "")))
    kin.interrupt()
    assert kin.done(cell)["content"]["ename"] == "TurnInterrupted"
    assert "variables that it had changed when it was stopped" in shown(kin, cell)
    assert kin.text(run(kin, "print(kept)")) == "1\n"
    assert "Here again." in shown(kin, run(kin, "%%kin\nAnd now?"))
