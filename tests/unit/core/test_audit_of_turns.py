"""What a turn's decisions leave in the audit log."""

from __future__ import annotations

from kin_nb.core.agent import Agent
from kin_nb.core.safety.audit import read_audit
from kin_nb.core.safety.decision import ApprovalDecision
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn


async def test_every_decision_of_a_turn_is_in_the_audit_log(model_server, agent):
    async def refuse(_) -> ApprovalDecision:
        return ApprovalDecision(False, "not this one")

    agent.set_ask(refuse)
    calls = [("read_file", {"path": "a.py"}), ("write_file", {"path": "new.py", "content": "1"})]
    model_server.enqueue(
        calls=[*(tool_call(name, **args) for name, args in calls), tool_call("bash", command="rm -rf /")]
    )
    model_server.enqueue("I see.")
    await run_turn(agent)
    entries = {entry.tool: entry for entry in read_audit()}
    assert [entries[name].verdict for name in ("read_file", "write_file", "bash")] == ["allow", "deny", "deny"]
    assert [entries[name].risk for name in ("read_file", "write_file", "bash")] == ["low", "medium", "high"]
    assert (entries["write_file"].by, entries["write_file"].note) == ("person", "not this one")
    assert entries["bash"].by == "DenyDangerousCommands"
    assert {entry.session for entry in entries.values()} == {agent.journal.root_id}


async def test_nothing_is_written_when_it_is_off(model_server, config):
    agent = Agent(config.model_copy(update={"audit": False}))
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("I see.")
    await run_turn(agent)
    await agent.aclose()
    assert list(read_audit()) == []


async def test_a_call_that_was_made_twice_has_a_line_of_its_own_that_names_the_one_that_ran(model_server, agent):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py"), tool_call("read_file", path="a.py")])
    model_server.enqueue("I see.")
    await run_turn(agent)
    first, second = read_audit()
    assert (first.same_as, second.same_as) == (None, first.call)
    assert first.call != second.call
    assert (second.verdict, second.by, second.summary, second.risk) == ("allow", "identical", first.summary, first.risk)


async def test_one_that_was_refused_with_another_is_refused_in_its_own_line(model_server, agent):
    model_server.enqueue(calls=[tool_call("bash", command="rm -rf /"), tool_call("bash", command="rm -rf /")])
    model_server.enqueue("I see.")
    await run_turn(agent)
    first, second = read_audit()
    assert (second.verdict, second.by, second.same_as) == ("deny", "DenyDangerousCommands", first.call)


async def test_one_whose_twin_no_one_decided_on_has_no_line_either(model_server, agent):
    async def refuse(_) -> ApprovalDecision:
        return ApprovalDecision(False)  # without a word: what has not begun is not run

    agent.set_ask(refuse)
    write = {"path": "b.py", "content": "1"}
    calls = [tool_call("write_file", path="new.py", content="1"), *(tool_call("write_file", **write) for _ in range(2))]
    model_server.enqueue(calls=calls)
    await run_turn(agent)
    assert [(entry.verdict, entry.same_as) for entry in read_audit()] == [("deny", None)]
