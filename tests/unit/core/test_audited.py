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
